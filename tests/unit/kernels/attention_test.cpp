#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

struct AttentionCase {
  std::vector<int64_t> lengths;
  int64_t num_heads;
  int64_t head_size;
  double probability;
};

int64_t longest(const std::vector<int64_t>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

/// Row by row and head by head, from the definition.
at::Tensor reference_attention(const at::Tensor& qkv, const at::Tensor& bias, const AttentionCase& problem,
                               double scale, const Dropout& dropped) {
  const int64_t hidden = problem.num_heads * problem.head_size;
  const at::Tensor biased = qkv + bias;
  std::vector<at::Tensor> rows;
  int64_t start = 0;
  for (const int64_t length : problem.lengths) {
    std::vector<at::Tensor> heads;
    Dropout of_row = dropped;
    of_row.token_keys = dropped.token_keys.slice(0, start, start + length);
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      const auto part = [&](int64_t which) {
        return biased.slice(0, start, start + length)
            .narrow(1, which * hidden + head * problem.head_size, problem.head_size);
      };
      const at::Tensor scores = at::mm(part(0), part(1).t()) * scale;
      const at::Tensor mask = mask_of(of_row, length, static_cast<uint32_t>(head));
      heads.push_back(at::mm(at::softmax(scores, -1) * mask, part(2)));
    }
    rows.push_back(at::cat(heads, 1));
    start += length;
  }
  return at::cat(rows);
}

class Attention : public ::testing::TestWithParam<AttentionCase> {};

INSTANTIATE_TEST_SUITE_P(
    Odd, Attention,
    ::testing::Values(AttentionCase{{1}, 1, 16, 0.0}, AttentionCase{{1, 1, 1}, 2, 32, 0.3},
                      AttentionCase{{3, 0, 5, 0}, 3, 32, 0.1}, AttentionCase{{7, 16, 1, 13}, 2, 16, 0.1},
                      AttentionCase{{37, 8, 20}, 3, 16, 0.0}, AttentionCase{{64, 17}, 2, 64, 0.1},
                      AttentionCase{{9, 30}, 2, 5, 0.1}, AttentionCase{{150, 2, 65}, 2, 32, 0.1},
                      AttentionCase{{0, 11}, 12, 32, 0.1}));

TEST_P(Attention, MatchesItsDefinition) {
  const AttentionCase& problem = GetParam();
  const Dropout dropped = make_dropout(problem.probability, 6, token_keys(problem.lengths));
  const int64_t tokens = dropped.token_keys.numel();
  const int64_t hidden = problem.num_heads * problem.head_size;
  const double scale = 1.0 / std::sqrt(static_cast<double>(problem.head_size));
  const at::Tensor qkv = random_tensor({tokens, 3 * hidden}, 1).set_requires_grad(true);
  const at::Tensor bias = parameter(random_tensor({3 * hidden}, 2));
  const at::Tensor grad = random_tensor({tokens, hidden}, 3);

  const at::Tensor qkv64 = reference_of(qkv), bias64 = reference_of(bias);
  const at::Tensor expected = reference_attention(qkv64, bias64, problem, scale, dropped);
  expected.backward(grad.to(at::kDouble));

  const at::Tensor actual = packed_attention(qkv, bias, cumulative(problem.lengths), longest(problem.lengths),
                                             problem.num_heads, scale, dropped);
  actual.backward(grad);
  expect_close(actual, expected, 2e-6, "output");
  expect_close(qkv.grad(), qkv64.grad(), 3e-6, "qkv");
  expect_close(bias.grad(), bias64.grad(), 3e-6, "bias");

  const at::NoGradGuard no_grad;
  const at::Tensor again = packed_attention(qkv, bias, cumulative(problem.lengths), longest(problem.lengths),
                                            problem.num_heads, scale, dropped);
  EXPECT_FALSE(again.requires_grad());
  EXPECT_TRUE(same(again, actual));
}

TEST(PackedAttention, SurvivesLargeScores) {
  const at::Tensor qkv = random_tensor({6, 48}, 1) * 100;
  const AttentionCase problem{{6}, 1, 16, 0.0};
  const at::Tensor bias = at::zeros({48});
  const at::Tensor actual = packed_attention(qkv, bias, cumulative({6}), 6, 1, 1.0, Dropout{});
  const at::Tensor expected = reference_attention(qkv.to(at::kDouble), bias.to(at::kDouble), problem, 1.0,
                                                  make_dropout(0, 0, token_keys({6})));
  EXPECT_TRUE(actual.isfinite().all().item<bool>());
  expect_close(actual, expected, 1e-3, "output");
}

TEST(PackedAttention, GradientMatchesFiniteDifferences) {
  const Dropout dropped = make_dropout(0.3, 1, token_keys({3, 2}));
  const at::Tensor bias = random_tensor({24}, 2), factor = random_tensor({5, 8}, 3);
  const at::Tensor qkv = random_tensor({5, 24}, 1).set_requires_grad(true);
  const auto value = [&](const at::Tensor& input) {
    return (packed_attention(input, bias, cumulative({3, 2}), 3, 2, 0.5, dropped) * factor)
        .to(at::kDouble)
        .sum();
  };
  value(qkv).backward();
  constexpr float kStep = 1e-2f;
  for (int64_t i = 0; i < qkv.numel(); ++i) {
    const at::NoGradGuard no_grad;
    at::Tensor up = qkv.detach().clone(), down = qkv.detach().clone();
    up.view({-1})[i] += kStep;
    down.view({-1})[i] -= kStep;
    const double slope = (value(up) - value(down)).item<double>() / (2.0 * kStep);
    EXPECT_NEAR(qkv.grad().view({-1})[i].item<double>(), slope, 1e-3) << i;
  }
}

TEST(PackedAttention, DoesNotDependOnThreadsOrOnTheOtherRows) {
  const std::vector<int64_t> lengths{20, 3, 70, 11};
  const auto run = [](const std::vector<int64_t>& of, const at::Tensor& qkv, int64_t first_row) {
    const at::Tensor leaf = qkv.clone().set_requires_grad(true);
    const at::Tensor bias = parameter(random_tensor({96}, 2));
    const at::Tensor y = packed_attention(leaf, bias, cumulative(of), longest(of), 2, 0.25,
                                          make_dropout(0.2, 4, token_keys(of, first_row)));
    y.sum().backward();
    return std::tuple{y.detach(), leaf.grad(), bias.grad()};
  };
  const at::Tensor qkv = random_tensor({104, 96}, 1);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto [y, qkv_grad, bias_grad] = run(lengths, qkv, 0);
  at::set_num_threads(2);
  const auto [y2, qkv_grad2, bias_grad2] = run(lengths, qkv, 0);
  at::set_num_threads(threads);
  EXPECT_TRUE(same(y, y2));
  EXPECT_TRUE(same(qkv_grad, qkv_grad2));
  EXPECT_TRUE(same(bias_grad, bias_grad2));

  const auto [y_part, qkv_grad_part, bias_grad_part] = run({70, 11}, qkv.slice(0, 23, 104), 2);
  EXPECT_TRUE(same(y.slice(0, 23, 104), y_part));
  EXPECT_TRUE(same(qkv_grad.slice(0, 23, 104), qkv_grad_part));
}

TEST(PackedAttention, RefusesBoundsThatDoNotFit) {
  const at::Tensor qkv = random_tensor({6, 48}, 1), bias = at::zeros({48});
  EXPECT_THROW(packed_attention(qkv, bias, cumulative({7}), 7, 1, 1.0, Dropout{}), c10::Error);
  EXPECT_THROW(packed_attention(qkv, bias, cumulative({6}), 5, 1, 1.0, Dropout{}), c10::Error);
  EXPECT_THROW(packed_attention(qkv, bias, at::tensor({0, 8, 6}, at::kInt), 8, 1, 1.0, Dropout{}),
               c10::Error);
  EXPECT_THROW(packed_attention(qkv, bias, cumulative({6}), 6, 5, 1.0, Dropout{}), c10::Error);
}

}  // namespace
}  // namespace finetune::kernels::testing
