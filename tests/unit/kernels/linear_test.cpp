#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

at::Tensor reference_activation(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kTanh:
      return at::tanh(x);
  }
  return {};
}

constexpr Activation kActivations[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu,
                                       Activation::kRelu, Activation::kSilu,     Activation::kTanh};

class Shapes : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

INSTANTIATE_TEST_SUITE_P(Odd, Shapes,
                         ::testing::Values(std::pair{1, 16}, std::pair{3, 5}, std::pair{37, 48},
                                           std::pair{70, 384}, std::pair{0, 16}));

TEST_P(Shapes, LinearIsAProductWithTheTransposedWeight) {
  const auto [rows, cols] = GetParam();
  const at::Tensor x = random_tensor({rows, cols}, 1).set_requires_grad(true);
  const at::Tensor weight = parameter(random_tensor({24, cols}, 2));
  const at::Tensor grad = random_tensor({rows, 24}, 3);
  const at::Tensor x64 = reference_of(x), weight64 = reference_of(weight);
  const at::Tensor expected = at::mm(x64, weight64.t());
  expected.backward(grad.to(at::kDouble));

  const at::Tensor actual = kernels::linear(x, weight);
  actual.backward(grad);
  expect_close(actual, expected, 1e-6, "output");
  expect_close(x.grad(), x64.grad(), 1e-6, "x");
  expect_close(weight.grad(), weight64.grad(), 1e-6, "weight");
}

TEST_P(Shapes, AddBias) {
  const auto [rows, cols] = GetParam();
  const at::Tensor x = random_tensor({rows, cols}, 1).set_requires_grad(true);
  const at::Tensor bias = parameter(random_tensor({cols}, 2));
  const at::Tensor grad = random_tensor({rows, cols}, 3);
  const at::Tensor actual = add_bias(x, bias);
  actual.backward(grad);
  EXPECT_TRUE(same(actual, x.detach() + bias.detach()));
  EXPECT_TRUE(same(x.grad(), grad));
  expect_close(bias.grad(), grad.to(at::kDouble).sum(0), 1e-6, "bias");
}

TEST_P(Shapes, BiasActivationMatchesAten) {
  const auto [rows, cols] = GetParam();
  for (const Activation activation : kActivations) {
    SCOPED_TRACE(static_cast<int>(activation));
    const at::Tensor x = (random_tensor({rows, cols}, 1) * 3).set_requires_grad(true);
    const at::Tensor bias = parameter(random_tensor({cols}, 2));
    const at::Tensor grad = random_tensor({rows, cols}, 3);
    const at::Tensor x64 = reference_of(x), bias64 = reference_of(bias);
    const at::Tensor expected = reference_activation(x64 + bias64, activation);
    expected.backward(grad.to(at::kDouble));

    const at::Tensor actual = bias_activation(x, bias, activation);
    actual.backward(grad);
    expect_close(actual, expected, 5e-7, "output");
    expect_close(x.grad(), x64.grad(), 1e-6, "x");
    expect_close(bias.grad(), bias64.grad(), 1e-6, "bias");
  }
}

TEST(BiasActivation, IsAccurateAlongTheWholeAxis) {
  const at::Tensor x = at::linspace(-12, 12, 4801, at::kFloat).view({1, -1}).set_requires_grad(true);
  const at::Tensor bias = at::zeros({4801});
  for (const Activation activation : kActivations) {
    SCOPED_TRACE(static_cast<int>(activation));
    x.mutable_grad() = at::Tensor();
    const at::Tensor x64 = reference_of(x);
    const at::Tensor expected = reference_activation(x64, activation);
    expected.sum().backward();
    const at::Tensor actual = bias_activation(x, bias, activation);
    actual.sum().backward();
    // Relative to each value itself, down to results of 1e-6.
    const auto relative = [](const at::Tensor& a, const at::Tensor& e) {
      return ((a.detach().to(at::kDouble) - e.detach()).abs() / (e.detach().abs() + 1e-6))
          .max()
          .item<double>();
    };
    EXPECT_LT(relative(actual, expected), 2e-6);
    EXPECT_LT((x.grad().to(at::kDouble) - x64.grad()).abs().max().item<double>(), 1e-6);
  }
}

TEST(BiasActivation, KeepsNaNAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = at::tensor({nan, inf, -100.0f, 100.0f, -0.0f}).view({1, 5});
  for (const Activation activation : kActivations) {
    SCOPED_TRACE(static_cast<int>(activation));
    const at::Tensor y = bias_activation(x, at::zeros({5}), activation);
    // In float64: oneDNN's float32 GELU, which LibTorch takes on AVX-512, makes NaN of infinity.
    const at::Tensor expected = reference_activation(x.to(at::kDouble), activation).to(at::kFloat);
    EXPECT_TRUE(at::allclose(y, expected, 1e-6, 1e-30, /*equal_nan=*/true)) << y << expected;
  }
}

TEST(ParameterGrads, AddUpOverCalls) {
  const at::Tensor x = random_tensor({37, 48}, 1);
  const at::Tensor weight = parameter(random_tensor({16, 48}, 2)), bias = parameter(random_tensor({16}, 3));
  const auto pass = [&] {
    bias_activation(kernels::linear(x, weight), bias, Activation::kGelu).sum().backward();
  };
  pass();
  const at::Tensor weight_once = weight.grad().clone(), bias_once = bias.grad().clone();
  const void* weight_memory = weight.grad().data_ptr();
  pass();
  expect_close(weight.grad(), weight_once.to(at::kDouble) * 2, 1e-6, "weight");
  expect_close(bias.grad(), bias_once.to(at::kDouble) * 2, 1e-6, "bias");
  EXPECT_EQ(weight.grad().data_ptr(), weight_memory)
      << "the gradient's memory must stay where the optimizer knows it";
}

TEST(ParameterGrads, AreAllocatedWhereTheCallerDidNot) {
  const at::Tensor weight = random_tensor({16, 48}, 2).set_requires_grad(true);
  kernels::linear(random_tensor({3, 48}, 1), weight).sum().backward();
  EXPECT_EQ(weight.grad().sizes(), weight.sizes());
}

TEST(ParameterGrads, FrozenParametersGetNone) {
  const at::Tensor x = random_tensor({3, 48}, 1).set_requires_grad(true);
  const at::Tensor weight = random_tensor({16, 48}, 2), bias = random_tensor({16}, 3);
  add_bias(bias_activation(kernels::linear(x, weight), bias, Activation::kRelu), bias).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(bias.grad().defined());
}

TEST(ParameterGrads, NothingIsKeptWithoutGrad) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = parameter(random_tensor({16, 48}, 2)), bias = parameter(random_tensor({16}, 3));
  const at::Tensor y =
      bias_activation(kernels::linear(random_tensor({3, 48}, 1), weight), bias, Activation::kSilu);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(y.grad_fn());
}

TEST(ParameterGrads, DoNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> grads;
  for (const int n : {1, 2}) {
    at::set_num_threads(n);
    const at::Tensor x = random_tensor({333, 48}, 1).set_requires_grad(true);
    const at::Tensor bias = parameter(random_tensor({48}, 2));
    bias_activation(x, bias, Activation::kGelu).backward(random_tensor({333, 48}, 3));
    grads.push_back(bias.grad());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(same(grads[0], grads[1]));
}

TEST(BiasActivation, RefusesABiasOfAnotherSize) {
  EXPECT_THROW(bias_activation(random_tensor({3, 8}, 1), at::zeros({7}), Activation::kGelu), c10::Error);
  EXPECT_THROW(add_bias(random_tensor({3, 8}, 1).to(at::kDouble), at::zeros({8})), c10::Error);
}

}  // namespace
}  // namespace finetune::kernels::testing
