/// Operators that a transformer trainer uses give the CPU's results on sim, bit for bit, with the host reads
/// they are known to cost.

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <cctype>
#include <cstring>

#include "support.h"

namespace finetune::sim {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr auto kFloat = at::kFloat;

/// `make` builds the operands on the CPU from a fixed seed; `run` gets them on one device or the other.
struct Case {
  const char* name;
  std::function<Tensors()> make;
  std::function<Tensors(Tensors&)> run;
  int64_t expected_reads = 0;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Tensor random(at::IntArrayRef shape) { return at::randn(shape); }
Tensor ids(int64_t n, at::IntArrayRef shape) { return at::randint(n, shape, at::kLong); }

bool same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

Tensors with_grad(Tensors inputs, const std::function<Tensor(Tensors&)>& f) {
  Tensors leaves;
  for (auto& t : inputs) {
    t = t.detach();
    if (t.is_floating_point()) leaves.push_back(t.requires_grad_());
  }
  Tensor y = f(inputs);
  (y * y).sum().backward();
  Tensors out{y.detach()};
  for (auto& leaf : leaves) out.push_back(leaf.grad());
  return out;
}

#define GRAD(expression) \
  [](Tensors& all) { return with_grad(all, [](Tensors& t) -> Tensor { return expression; }); }
#define RUN(...)              \
  [](Tensors& t) -> Tensors { \
    (void)t;                  \
    __VA_ARGS__               \
  }

std::vector<Case> cases() {
  return {
      {"add, scalar", [] { return Tensors{random({4, 5})}; }, GRAD(t[0] + 2.5)},
      {"add broadcast", [] { return Tensors{random({4, 5}), random({5})}; }, GRAD(t[0] + t[1])},
      {"linear", [] { return Tensors{random({2, 7, 16}), random({32, 16}), random({32})}; }, GRAD(at::linear(t[0], t[1], t[2]))},
      {"matmul 4d", [] { return Tensors{random({2, 3, 7, 8}), random({2, 3, 8, 7})}; }, GRAD(at::matmul(t[0], t[1]))},
      {"baddbmm", [] { return Tensors{random({3, 7, 7}), random({3, 7, 8}), random({3, 8, 7})}; }, GRAD(at::baddbmm(t[0], t[1], t[2], 1, 0.125))},
      {"layer_norm", [] { return Tensors{random({6, 32}), random({32}), random({32})}; }, GRAD(at::layer_norm(t[0], {32}, t[1], t[2], 1e-12))},
      {"gelu", [] { return Tensors{random({6, 32})}; }, GRAD(at::gelu(t[0]))},
      {"tanh", [] { return Tensors{random({6, 32})}; }, GRAD(at::tanh(t[0]))},
      {"softmax", [] { return Tensors{random({2, 3, 7, 7})}; }, GRAD(at::softmax(t[0], -1))},
      {"embedding + dense backward", [] { return Tensors{random({50, 16}), ids(50, {4, 7})}; }, GRAD(at::embedding(t[0], t[1], 0))},
      {"cross_entropy", [] { return Tensors{random({9, 5}), ids(5, {9})}; }, GRAD(at::cross_entropy_loss(t[0], t[1]))},
      {"cross_entropy smoothing", [] { return Tensors{random({9, 5}), ids(5, {9})}; }, GRAD(at::cross_entropy_loss(t[0], t[1], {}, 1, -100, 0.1))},
      {"mse_loss", [] { return Tensors{random({9}), random({9})}; }, GRAD(at::mse_loss(t[0], t[1]))},
      {"bce_with_logits", [] { return Tensors{random({9, 5}), at::rand({9, 5})}; }, GRAD(at::binary_cross_entropy_with_logits(t[0], t[1].detach()))},
      {"sdpa", [] { return Tensors{random({2, 3, 7, 8}), random({2, 3, 7, 8}), random({2, 3, 7, 8})}; }, GRAD(at::scaled_dot_product_attention(t[0], t[1], t[2]))},
      {"sdpa, bool mask", [] { return Tensors{random({2, 3, 7, 8}), random({2, 3, 7, 8}), random({2, 3, 7, 8}), at::rand({2, 1, 1, 7}) > 0.3}; }, GRAD(at::scaled_dot_product_attention(t[0], t[1], t[2], t[3]))},
      {"masked_fill", [] { return Tensors{random({4, 7}), at::rand({4, 7}) > 0.5}; }, GRAD(t[0].masked_fill(t[1], -1e4))},
      {"where", [] { return Tensors{random({4, 7}), at::rand({4, 7}) > 0.5}; }, GRAD(at::where(t[1], t[0], t[0] * 2))},
      {"index, long", [] { return Tensors{random({9, 5}), ids(9, {4})}; }, GRAD(t[0].index({t[1]}))},
      {"index, bool mask", [] { return Tensors{random({9, 5}), at::rand({9}) > 0.5}; }, GRAD(t[0].index({t[1]})), 2},
      {"index_put_ accumulate", [] { return Tensors{random({9, 5}), ids(9, {4}), random({4, 5})}; }, GRAD(t[0].index_put({t[1]}, t[2], true))},
      {"index_put_ bool mask", [] { return Tensors{random({9, 5}), at::rand({9}) > 0.5}; }, RUN(t[0].index_put_({t[1]}, at::zeros({5}, t[0].options())); return {t[0]};), 1},
      {"index_select", [] { return Tensors{random({9, 5}), ids(9, {4})}; }, GRAD(t[0].index_select(0, t[1]))},
      {"gather", [] { return Tensors{random({4, 7}), ids(7, {4, 1})}; }, GRAD(t[0].gather(1, t[1]))},
      {"scatter_add", [] { return Tensors{random({4, 7}), ids(7, {4, 3}), random({4, 3})}; }, GRAD(t[0].scatter_add(1, t[1], t[2]))},
      {"index_add", [] { return Tensors{random({9, 5}), ids(9, {4}), random({4, 5})}; }, GRAD(t[0].index_add(0, t[1], t[2]))},
      {"cat, stack", [] { return Tensors{random({2, 5}), random({3, 5})}; }, GRAD(at::cat({t[0], t[1]}) + at::stack({t[0].sum(), t[1].sum()}).sum())},
      {"split, chunk, unbind", [] { return Tensors{random({6, 6})}; }, GRAD(t[0].chunk(3, 1)[1] * t[0].split(2, 1)[0] + t[0].unbind(1)[2].unsqueeze(1))},
      {"transpose, permute, reshape", [] { return Tensors{random({2, 7, 12})}; }, GRAD(t[0].view({2, 7, 3, 4}).permute({0, 2, 1, 3}).transpose(2, 3).reshape({6, 28}))},
      {"expand, unfold, diagonal", [] { return Tensors{random({8, 8})}; }, GRAD(t[0].unfold(0, 3, 2).sum() + t[0].diagonal().expand({4, 8}))},
      {"cumsum", [] { return Tensors{random({4, 7})}; }, GRAD(t[0].cumsum(1))},
      {"max, argmax, topk, sort", [] { return Tensors{random({4, 7})}; }, RUN(auto [v, i] = t[0].topk(3); auto [s, j] = t[0].sort(); return {t[0].argmax(1), std::get<0>(t[0].max(1)), v, i, s, j};)},
      {"to bf16 and back", [] { return Tensors{random({4, 7})}; }, GRAD(t[0].to(at::kBFloat16).to(kFloat))},
      {"bf16 linear", [] { return Tensors{random({4, 16}).to(at::kBFloat16), random({8, 16}).to(at::kBFloat16)}; }, GRAD(at::linear(t[0], t[1]))},
      {"_foreach_norm, _foreach_mul_", [] { return Tensors{random({4, 7}), random({9})}; }, RUN(auto n = at::_foreach_norm(t); auto total = at::linalg_vector_norm(at::stack(n)); at::_foreach_mul_(t, at::clamp_max(1.0 / (total + 1e-6), 1.0)); return {n[0], n[1], t[0], t[1]};)},
      {"_foreach_add_, _foreach_zero_", [] { return Tensors{random({4, 7}), random({9})}; }, RUN(at::_foreach_add_(t, 1.5); Tensors a = at::_foreach_add(t, t); at::_foreach_zero_(t); a.push_back(t[0]); return a;)},
      {"_fused_adamw_", [] { return Tensors{random({4, 7}), random({4, 7}), at::zeros({4, 7}), at::zeros({4, 7}), at::zeros({})}; },
       RUN(Tensors p{t[0]}, g{t[1]}, m{t[2]}, v{t[3]}, n{t[4]}; at::_foreach_add_(n, 1); at::_fused_adamw_(p, g, m, v, {}, n, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false); return t;)},
      {"_fused_adamw_ tensor lr, found_inf", [] { return Tensors{random({4, 7}), random({4, 7}), at::zeros({4, 7}), at::zeros({4, 7}), at::ones({}), at::full({}, 1e-3), at::zeros({}), at::ones({})}; },
       RUN(Tensors p{t[0]}, g{t[1]}, m{t[2]}, v{t[3]}, n{t[4]}; at::_fused_adamw_(p, g, m, v, {}, n, t[5], 0.9, 0.999, 0.01, 1e-8, false, false, t[7], t[6]); return t;)},
      {"_fused_sgd_", [] { return Tensors{random({4, 7}), random({4, 7}), at::zeros({4, 7})}; }, RUN(Tensors p{t[0]}, g{t[1]}, m{t[2]}; at::_fused_sgd_(p, g, m, 0.01, 0.9, 0.1, 0.0, false, false, true); return t;)},
      {"amp unscale, update", [] { return Tensors{random({4, 7}), at::zeros({}), at::full({}, 0.5), at::full({}, 2.0), at::zeros({}, at::kInt)}; },
       RUN(Tensors g{t[0]}; at::_amp_foreach_non_finite_check_and_unscale_(g, t[1], t[2]); at::_amp_update_scale_(t[3], t[4], t[1], 2.0, 0.5, 1); return t;)},
      {"randn, randperm, dropout", [] { return Tensors{random({64, 8})}; },
       RUN(at::Generator g = at::globalContext().defaultGenerator(t[0].device()); g.set_current_seed(5); auto o = t[0].options(); return {at::randn({9}, o), at::rand({9}, o), at::randperm(9, o.dtype(at::kLong)), std::get<0>(at::native_dropout(t[0], 0.1, true)), at::bernoulli(t[0].sigmoid()), at::empty({7}, o).normal_(0, 0.02)};)},
      {"explicit generator", [] { return Tensors{random({4})}; },
       RUN(at::Generator g = t[0].is_cpu() ? at::detail::createCPUGenerator() : at::detail::getPrivateUse1Hooks().getNewGenerator(0); g.set_current_seed(9); return {at::randn({9}, g, t[0].options()), at::empty({7}, t[0].options()).uniform_(-1, 1, g)};)},
      {"arange, full, eye, linspace, tril", [] { return Tensors{random({4})}; }, RUN(auto o = t[0].options(); return {at::arange(7, o), at::full({3}, 2.5, o), at::eye(3, o), at::linspace(0, 1, 5, o), at::ones({4, 4}, o).tril(), at::tril_indices(3, 3, 0, o.dtype(at::kLong)), at::scalar_tensor(3.5, o), at::zeros_like(t[0]), at::full_like(t[0], 2)};)},
      {"resize_, set_, out=", [] { return Tensors{random({3, 4}), random({20})}; },
       RUN(auto a = t[0].clone(); a.resize_({2, 2}); auto b = at::empty({0}, t[0].options()); at::add_out(b, t[0], t[0]); auto c = at::empty({0}, t[0].options()); c.set_(t[1]); auto d = at::empty({0}, t[0].options()); d.set_(t[1].storage(), 2, {3, 3}, {3, 1}); auto e = t[1].clone(); e.resize_({40}).fill_(1); d.add_(1); return {a, b, c, d, e, t[1]};)},
      {"view and in-place on view", [] { return Tensors{random({6, 6})}; }, RUN(t[0].narrow(0, 1, 2).mul_(2); t[0].t()[0].zero_(); t[0].view({36}).slice(0, 0, 36, 5).add_(1); return {t[0]};)},
      {"view of another dtype", [] { return Tensors{random({4, 8})}; }, RUN(return {t[0].view(at::kInt), t[0].view(at::kByte)};)},
      {"complex, conj, fft", [] { return Tensors{random({8})}; }, RUN(auto c = at::fft_rfft(t[0]); return {c, c.conj().resolve_conj(), at::view_as_real(c).clone(), at::real(c).clone()};)},
      {"unique, nonzero, masked_select", [] { return Tensors{ids(5, {9})}; }, RUN(return {std::get<0>(at::_unique2(t[0])), t[0].nonzero(), t[0].masked_select(t[0] > 2)};), 3},
      {"item, equal, is_nonzero", [] { return Tensors{random({3})}; }, RUN(return {at::full({2}, t[0][0].item<double>()), at::full({1}, t[0].equal(t[0]) ? 1 : 0), at::full({1}, t[0][1].is_nonzero() ? 1 : 0)};), 3},
      {"bincount", [] { return Tensors{ids(5, {9})}; }, RUN(return {at::bincount(t[0], {}, 5)};), 1},
      {"repeat_interleave", [] { return Tensors{random({3, 2}), ids(4, {3})}; }, RUN(return {t[0].repeat_interleave(2, 0), t[0].repeat_interleave(t[1], 0)};), 1},
      {"one_hot", [] { return Tensors{ids(4, {3})}; }, RUN(return {at::one_hot(t[0], 4)};)},
      {"isfinite, all, any", [] { return Tensors{random({3})}; }, RUN(return {at::isfinite(t[0]).all(), at::isnan(t[0]).any(), at::_is_all_true(at::isfinite(t[0]))};)},
      {"clone, contiguous, channels", [] { return Tensors{random({3, 4, 5})}; }, GRAD(t[0].transpose(0, 2).contiguous().clone() * 2)},
      {"batch_norm (running stats)", [] { return Tensors{random({6, 4}), random({4}), random({4})}; }, RUN(auto m = at::zeros({4}, t[0].options()); auto v = at::ones({4}, t[0].options()); auto y = at::batch_norm(t[0], t[1], t[2], m, v, true, 0.1, 1e-5, false); return {y, m, v};)},
      {"linalg solve, inverse", [] { return Tensors{random({5, 5}), random({5, 2})}; }, RUN(return {std::get<0>(at::linalg_solve_ex(t[0], t[1]))};)},
      {"native_multi_head, transformer layer", [] { return Tensors{random({2, 7, 16}), random({48, 16}), random({48}), random({16, 16}), random({16})}; }, RUN(at::NoGradGuard off; auto [y, w] = at::_native_multi_head_attention(t[0], t[0], t[0], 16, 4, t[1], t[2], t[3], t[4]); return {y};)},
  };
}

class SimOperators : public SimTest, public ::testing::WithParamInterface<Case> {};

TEST_P(SimOperators, SameAsCpu) {
  const Case& c = GetParam();
  at::globalContext().setSDPUseFlash(false);  // sim has no fused attention: compare the decomposed one
  at::manual_seed(1);
  Tensors host = c.make(), device;
  for (const auto& t : host) device.push_back(t.to(kSim));
  Tensors expected, actual;
  const std::string host_error = thrown_by([&] { expected = c.run(host); });
  reset_counters();
  ASSERT_EQ(thrown_by([&] { actual = c.run(device); }), host_error);
  EXPECT_EQ(counters().host_reads, c.expected_reads);
  EXPECT_EQ(reports(), "");
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const bool is_host = !actual[i].defined() || actual[i].is_cpu();
    EXPECT_TRUE(same(expected[i], is_host ? actual[i] : actual[i].cpu())) << "result " << i;
  }
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char* c = info.param.name; *c != 0; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, SimOperators, ::testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace finetune::sim
