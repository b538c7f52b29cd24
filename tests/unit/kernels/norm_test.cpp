#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

constexpr double kEps = 1e-12;

struct NormCase {
  std::vector<int64_t> lengths;
  int64_t cols;
  double probability;
};

class Norms : public ::testing::TestWithParam<NormCase> {};

INSTANTIATE_TEST_SUITE_P(Odd, Norms,
                         ::testing::Values(NormCase{{1}, 16, 0.0}, NormCase{{1}, 16, 0.1},
                                           NormCase{{2, 1}, 5, 0.1}, NormCase{{37}, 48, 0.1},
                                           NormCase{{20, 0, 50}, 384, 0.1}, NormCase{{20, 50}, 384, 0.0},
                                           NormCase{{3}, 1100, 0.5}));

TEST_P(Norms, DropoutAddLayerNormMatchesItsParts) {
  const auto& [lengths, cols, probability] = GetParam();
  const Dropout dropped = make_dropout(probability, 5, token_keys(lengths));
  const int64_t rows = dropped.token_keys.numel();
  const at::Tensor x = random_tensor({rows, cols}, 1).set_requires_grad(true);
  const at::Tensor residual = random_tensor({rows, cols}, 2).set_requires_grad(true);
  const at::Tensor x_bias = parameter(random_tensor({cols}, 3)), weight = parameter(random_tensor({cols}, 4)),
                   bias = parameter(random_tensor({cols}, 5));
  const at::Tensor grad = random_tensor({rows, cols}, 6);

  const at::Tensor x64 = reference_of(x), residual64 = reference_of(residual),
                   x_bias64 = reference_of(x_bias), weight64 = reference_of(weight),
                   bias64 = reference_of(bias);
  const at::Tensor sum = (x64 + x_bias64) * mask_of(dropped, cols) + residual64;
  const at::Tensor expected = at::layer_norm(sum, {cols}, weight64, bias64, kEps);
  expected.backward(grad.to(at::kDouble));

  const at::Tensor actual = dropout_add_layer_norm(x, x_bias, residual, weight, bias, kEps, dropped);
  actual.backward(grad);
  expect_close(actual, expected, 1e-6, "output");
  expect_close(x.grad(), x64.grad(), 3e-6, "x");
  expect_close(residual.grad(), residual64.grad(), 3e-6, "residual");
  expect_close(x_bias.grad(), x_bias64.grad(), 3e-6, "x_bias");
  expect_close(weight.grad(), weight64.grad(), 2e-6, "weight");
  expect_close(bias.grad(), bias64.grad(), 2e-6, "bias");
}

TEST_P(Norms, LayerNormMatchesAten) {
  const auto& [lengths, cols, probability] = GetParam();
  const int64_t rows = token_keys(lengths).numel();
  const at::Tensor x = (random_tensor({rows, cols}, 1) + 3).set_requires_grad(true);
  const at::Tensor weight = parameter(random_tensor({cols}, 4)), bias = parameter(random_tensor({cols}, 5));
  const at::Tensor grad = random_tensor({rows, cols}, 6);
  const at::Tensor x64 = reference_of(x), weight64 = reference_of(weight), bias64 = reference_of(bias);
  const at::Tensor expected = at::layer_norm(x64, {cols}, weight64, bias64, kEps);
  expected.backward(grad.to(at::kDouble));

  const at::Tensor actual = layer_norm(x, weight, bias, kEps);
  actual.backward(grad);
  expect_close(actual, expected, 1e-6, "output");
  expect_close(x.grad(), x64.grad(), 3e-6, "x");
  expect_close(weight.grad(), weight64.grad(), 2e-6, "weight");
  expect_close(bias.grad(), bias64.grad(), 2e-6, "bias");
}

TEST_P(Norms, DropoutFollowsItsDefinitionBothWays) {
  const auto& [lengths, cols, probability] = GetParam();
  const Dropout dropped = make_dropout(probability, 3, token_keys(lengths));
  const at::Tensor x = random_tensor({dropped.token_keys.numel(), cols}, 1).set_requires_grad(true);
  const at::Tensor mask = mask_of(dropped, cols).to(at::kFloat);
  const at::Tensor actual = dropout(x, dropped);
  actual.sum().backward();
  EXPECT_TRUE(same(actual, x * mask));
  EXPECT_TRUE(same(x.grad(), mask));
}

TEST(LayerNorm, GradientMatchesFiniteDifferences) {
  const Dropout dropped = make_dropout(0.3, 1, token_keys({2}));
  const at::Tensor residual = random_tensor({2, 8}, 2), x_bias = random_tensor({8}, 3),
                   weight = random_tensor({8}, 4), bias = random_tensor({8}, 5),
                   factor = random_tensor({2, 8}, 6);
  const at::Tensor x = random_tensor({2, 8}, 1).set_requires_grad(true);
  const auto value = [&](const at::Tensor& input) {
    const at::Tensor y = dropout_add_layer_norm(input, x_bias, residual, weight, bias, 1e-5, dropped);
    return (y * factor).to(at::kDouble).sum();
  };
  value(x).backward();
  constexpr float kStep = 1e-2f;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const at::NoGradGuard no_grad;
    at::Tensor up = x.detach().clone(), down = x.detach().clone();
    up.view({-1})[i] += kStep;
    down.view({-1})[i] -= kStep;
    const double slope = (value(up) - value(down)).item<double>() / (2.0 * kStep);
    EXPECT_NEAR(x.grad().view({-1})[i].item<double>(), slope, 2e-3) << i;
  }
}

TEST(Dropout, KeepsTheAskedFractionAndTheMean) {
  const Dropout dropped = make_dropout(0.1, 2, token_keys({500, 300}));
  const at::Tensor y = dropout(at::ones({800, 384}), dropped);
  const auto count = static_cast<double>(y.numel());
  const double kept = y.gt(0).sum().item<double>() / count;
  const double deviation = std::sqrt(0.1 * 0.9 / count);
  EXPECT_NEAR(kept, 0.9, 5 * deviation + 1.0 / 65536);
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 5 * deviation / 0.9 + 1e-4);
  // Columns and rows each hold about as many: nothing repeats along either.
  EXPECT_LT((y.gt(0).to(at::kDouble).mean(0) - 0.9).abs().max().item<double>(), 6 * std::sqrt(0.09 / 800));
  EXPECT_LT((y.gt(0).to(at::kDouble).mean(1) - 0.9).abs().max().item<double>(), 6 * std::sqrt(0.09 / 384));
}

TEST(Dropout, DoesNotDependOnTheSplitIntoMicroBatches) {
  const std::vector<int64_t> lengths{5, 9, 1, 17};
  const at::Tensor x = at::ones({32, 48});
  const at::Tensor whole = dropout(x, make_dropout(0.4, 9, token_keys(lengths)));
  const at::Tensor first = dropout(x.slice(0, 0, 14), make_dropout(0.4, 9, token_keys({5, 9})));
  const at::Tensor second =
      dropout(x.slice(0, 14, 32), make_dropout(0.4, 9, token_keys({1, 17}, /*first_row=*/2)));
  EXPECT_TRUE(same(whole, at::cat({first, second})));
}

TEST(Dropout, ChangesWithSeedStepSiteAndRow) {
  const at::Tensor x = at::ones({16, 48});
  const auto run = [&](int64_t site, int64_t seed, int64_t step, int64_t first_row) {
    return dropout(x, make_dropout(0.5, site, token_keys({16}, first_row), seed, step));
  };
  const at::Tensor base = run(1, 2, 3, 4);
  EXPECT_TRUE(same(base, run(1, 2, 3, 4)));
  EXPECT_FALSE(same(base, run(2, 2, 3, 4)));
  EXPECT_FALSE(same(base, run(1, 3, 3, 4)));
  EXPECT_FALSE(same(base, run(1, 2 + (int64_t{1} << 32), 3, 4)));
  EXPECT_FALSE(same(base, run(1, 2, 4, 4)));
  EXPECT_FALSE(same(base, run(1, 2, 3, 5)));
}

TEST(Dropout, OffReturnsItsInput) {
  const at::Tensor x = random_tensor({3, 8}, 1);
  EXPECT_EQ(dropout(x, Dropout{}).data_ptr(), x.data_ptr());
}

TEST(Dropout, NamesWhatIsMissing) {
  const at::Tensor x = random_tensor({3, 8}, 1);
  const at::Tensor rng = at::tensor({int64_t{1}, int64_t{1}}, at::kLong);
  EXPECT_THROW(dropout(x, Dropout{1.5, 0, rng, token_keys({3})}), c10::Error);
  EXPECT_THROW(dropout(x, Dropout{0.5, 1 << 16, rng, token_keys({3})}), c10::Error);
  EXPECT_THROW(dropout(x, Dropout{0.5, 0, rng, token_keys({2})}), c10::Error);
}

TEST(Philox, MatchesTheReferenceImplementation) {
  // Known answers of Random123 for philox4x32 with 7 rounds.
  const PhiloxWords zeros = philox4x32_7({{0, 0, 0, 0}}, 0, 0);
  const uint32_t expected_zeros[] = {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48};
  const uint32_t all = 0xffffffff;
  const PhiloxWords ones = philox4x32_7({{all, all, all, all}}, all, all);
  const uint32_t expected_ones[] = {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(zeros.word[i], expected_zeros[i]);
    EXPECT_EQ(ones.word[i], expected_ones[i]);
  }
}

TEST(LayerNorm, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int n : {1, 2}) {
    at::set_num_threads(n);
    const Dropout dropped = make_dropout(0.1, 1, token_keys({333}));
    const at::Tensor x = random_tensor({333, 48}, 1).set_requires_grad(true);
    const at::Tensor weight = parameter(random_tensor({48}, 2)), bias = parameter(random_tensor({48}, 3)),
                     x_bias = parameter(random_tensor({48}, 4));
    dropout_add_layer_norm(x, x_bias, x.detach(), weight, bias, kEps, dropped)
        .backward(random_tensor({333, 48}, 5));
    results.push_back(at::cat({x.grad().view({-1}), weight.grad(), bias.grad(), x_bias.grad()}));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(same(results[0], results[1]));
}

}  // namespace
}  // namespace finetune::kernels::testing
