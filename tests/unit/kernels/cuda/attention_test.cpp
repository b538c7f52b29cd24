#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

constexpr int64_t kSite = 5;

struct Problem {
  std::vector<int64_t> lengths;
  int64_t heads;
  int64_t head_size;
};

/// The tensor cores' operands: queries, keys and values with their bias, as rounded as the activations are.
/// In low precision this rounding is nearly all of the difference to a computation in float32.
at::Tensor biased(const at::Tensor& qkv, const at::Tensor& bias) {
  return (qkv.to(at::kFloat) + bias).to(qkv.scalar_type());
}

/// Rows shorter than a tile, exact tiles, several of them, empty rows; head sizes that fill no matrix of the
/// tensor cores.
const std::vector<Problem> kProblems{
    {{5, 1, 0, 32}, 2, 16}, {{33, 7}, 1, 24}, {{70, 64, 3}, 2, 8}, {{40}, 3, 5}, {{65}, 1, 64}};

struct Operands {
  at::Tensor qkv, qkv_bias, cu_seqlens, grad;
  int64_t max_length;
  int64_t heads;
  double scale;
  double probability;
  at::Tensor rng, token_keys;

  Operands there() const {
    return {
        on_device(qkv), on_device(qkv_bias), on_device(cu_seqlens), on_device(grad),      max_length, heads,
        scale,          probability,         on_device(rng),        on_device(token_keys)};
  }
  /// As the CPU's kernel takes them, but for what the tensor cores round; see `biased`.
  Operands exact() const {
    return {biased(qkv, qkv_bias).to(at::kFloat),
            at::zeros_like(qkv_bias),
            cu_seqlens,
            grad.to(at::kFloat),
            max_length,
            heads,
            scale,
            probability,
            rng,
            token_keys};
  }
};

/// What the two operators give: output and log-sum-exp; gradients of qkv and of its bias.
using Forward = std::tuple<at::Tensor, at::Tensor> (*)(const at::Tensor&, const at::Tensor&,
                                                       const at::Tensor&, int64_t, int64_t, double, double,
                                                       int64_t, const operators::OptionalTensor&,
                                                       const operators::OptionalTensor&);

Tensors forward_of(Forward function, const Operands& o) {
  const auto [output, log_sum_exp] = function(o.qkv, o.qkv_bias, o.cu_seqlens, o.max_length, o.heads, o.scale,
                                              o.probability, kSite, o.rng, o.token_keys);
  return {output, log_sum_exp};
}

template <typename Function>
Tensors backward_of(Function function, const Operands& o, const Tensors& forward,
                    const at::Tensor& bias_grad) {
  return {function(o.grad, forward[0], forward[1], o.qkv, o.qkv_bias, o.cu_seqlens, o.max_length, o.heads,
                   o.scale, o.probability, kSite, o.rng, o.token_keys, bias_grad),
          bias_grad};
}

class CudaAttention : public KernelTest {
 protected:
  Operands operands(const Problem& problem, double probability) const {
    const at::Tensor cu_seqlens = cumulative(problem.lengths);
    const int64_t num_tokens = cu_seqlens[-1].item<int32_t>();
    const int64_t hidden = problem.heads * problem.head_size;
    const Dropout dropout = make_dropout(probability, kSite, token_keys(problem.lengths, 4));
    return {.qkv = activations({num_tokens, 3 * hidden}, 1),
            .qkv_bias = random_tensor({3 * hidden}, 2),
            .cu_seqlens = cu_seqlens,
            .grad = activations({num_tokens, hidden}, 3),
            .max_length = *std::max_element(problem.lengths.begin(), problem.lengths.end()),
            .heads = problem.heads,
            .scale = 1.0 / std::sqrt(static_cast<double>(problem.head_size)),
            .probability = probability,
            .rng = dropout.rng,
            .token_keys = dropout.token_keys};
  }
};
FINETUNE_IN_ALL_PRECISIONS(CudaAttention);

TEST_P(CudaAttention, EqualsTheCpuKernel) {
  for (const double probability : {0.0, 0.25}) {
    for (const Problem& problem : kProblems) {
      const Operands o = operands(problem, probability);
      const Operands e = o.exact();
      const Tensors forward = in_both_orders([&] { return forward_of(tested::packed_attention, o.there()); });
      const Tensors expected = forward_of(operators::packed_attention, e);
      SCOPED_TRACE(problem.head_size);
      EXPECT_EQ(forward[0].scalar_type(), type());
      expect_all_close(forward, expected, tolerance());

      const Tensors backward = in_both_orders([&] {
        return backward_of(tested::packed_attention_backward, o.there(),
                           {on_device(forward[0]), on_device(forward[1])},
                           on_device(at::ones_like(o.qkv_bias)));
      });
      EXPECT_EQ(backward[0].scalar_type(), type());
      expect_all_close(
          backward, backward_of(operators::packed_attention_backward, e, expected, at::ones_like(o.qkv_bias)),
          tolerance());
    }
  }
}

TEST_P(CudaAttention, EqualsATensComputedInDoublePrecision) {
  const Operands o = operands({{45}, 2, 16}, 0.0);
  const Operands there = o.there();
  const Tensors forward = forward_of(tested::packed_attention, there);
  const Tensors backward =
      backward_of(tested::packed_attention_backward, there, forward, on_device(at::zeros_like(o.qkv_bias)));

  const at::Tensor qkv = biased(o.qkv, o.qkv_bias).to(at::kDouble).set_requires_grad(true);
  const auto parts = qkv.view({45, 3, 2, 16}).permute({1, 2, 0, 3});  // [3, heads, L, D]
  const auto expected =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2]).permute({1, 0, 2}).reshape({45, 32});
  expected.backward(o.grad.to(at::kDouble));
  expect_close(forward[0].to(at::kCPU), expected, tolerance(), "output");
  expect_close(backward[0].to(at::kCPU), qkv.grad(), tolerance(), "gradient");
}

TEST_P(CudaAttention, LargeScoresStayFinite) {
  Operands o = operands({{50}, 1, 16}, 0.0);
  o.qkv = o.qkv * 100.0;
  const Tensors forward = forward_of(tested::packed_attention, o.there());
  for (const at::Tensor& result : forward) EXPECT_TRUE(at::isfinite(result).all().item<bool>());
  EXPECT_GT(forward[1].max().item<float>(), 1000.0f);
}

}  // namespace
}  // namespace finetune::kernels::testing
