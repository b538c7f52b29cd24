#include <functional>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

/// Every operator on activations of 16 bits against itself in float32 on the same values: what differs is the
/// rounding of what is stored.
class LowPrecision : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  /// What one rounding may change, with some room for its passage through a few operations.
  double tolerance() const { return GetParam() == at::kBFloat16 ? 4.0 / 256 : 4.0 / 2048; }

  /// Values that both formats hold exactly.
  at::Tensor rounded(at::IntArrayRef sizes, uint64_t seed) const {
    return random_tensor(sizes, seed).to(GetParam()).to(at::kFloat);
  }

  using Operator = std::function<at::Tensor(const std::vector<at::Tensor>& activations)>;

  /// Compares the output, the gradients of the activations, and those of `parameters`.
  void compare(const Operator& apply, const std::vector<at::Tensor>& inputs,
               const std::vector<at::Tensor>& parameters) const {
    const auto run = [&](at::ScalarType type) {
      std::vector<at::Tensor> activations;
      for (const at::Tensor& input : inputs)
        activations.push_back(input.to(type, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true));
      for (const at::Tensor& parameter : parameters) parameter.grad().zero_();
      const at::Tensor y = apply(activations);
      EXPECT_EQ(y.scalar_type(), type);
      y.backward(rounded(y.sizes(), 99).to(type));
      std::vector<at::Tensor> results{y};
      for (const at::Tensor& activation : activations) {
        EXPECT_EQ(activation.grad().scalar_type(), type);
        results.push_back(activation.grad());
      }
      for (const at::Tensor& parameter : parameters) {
        EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
        results.push_back(parameter.grad().clone());
      }
      return results;
    };
    const auto low = run(GetParam()), full = run(at::kFloat);
    for (size_t i = 0; i < full.size(); ++i)
      expect_close(low[i], full[i].to(at::kDouble), tolerance(), ("result " + std::to_string(i)).c_str());
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, LowPrecision, ::testing::Values(at::kBFloat16, at::kHalf));

TEST_P(LowPrecision, Linear) {
  const at::Tensor master = parameter(rounded({24, 40}, 2));
  const Weight weight(master, master.detach().to(GetParam()));
  compare([&](const auto& x) { return linear(x[0], weight); }, {rounded({9, 40}, 1)}, {master});
}

TEST_P(LowPrecision, BiasAndActivation) {
  const at::Tensor bias = parameter(rounded({45}, 2));
  compare([&](const auto& x) { return add_bias(x[0], bias); }, {rounded({9, 45}, 1)}, {bias});
  compare([&](const auto& x) { return bias_activation(x[0], bias, Activation::kGelu); },
          {rounded({9, 45}, 1)}, {bias});
}

TEST_P(LowPrecision, Dropout) {
  const Dropout drop = make_dropout(0.25, 3, token_keys({5, 4}));
  compare([&](const auto& x) { return dropout(x[0], drop); }, {rounded({9, 45}, 1)}, {});
}

TEST_P(LowPrecision, LayerNorm) {
  const at::Tensor weight = parameter(rounded({45}, 2)), bias = parameter(rounded({45}, 3)),
                   x_bias = parameter(rounded({45}, 4));
  compare([&](const auto& x) { return layer_norm(x[0], weight, bias, 1e-12); }, {rounded({9, 45}, 1)},
          {weight, bias});
  const Dropout drop = make_dropout(0.25, 3, token_keys({5, 4}));
  compare(
      [&](const auto& x) { return dropout_add_layer_norm(x[0], x_bias, x[1], weight, bias, 1e-12, drop); },
      {rounded({9, 45}, 5), rounded({9, 45}, 6)}, {weight, bias, x_bias});
}

TEST_P(LowPrecision, Attention) {
  const std::vector<int64_t> lengths{7, 1, 20};
  const at::Tensor bias = parameter(rounded({3 * 48}, 2));
  const Dropout drop = make_dropout(0.1, 3, token_keys(lengths));
  compare([&](const auto& x) { return packed_attention(x[0], bias, cumulative(lengths), 20, 4, 0.3, drop); },
          {rounded({28, 3 * 48}, 1)}, {bias});
}

/// The copy is the rounded parameter, for elements that change and for those that only decay.
TEST_P(LowPrecision, AdamWritesTheCopy) {
  for (const double skip : {0.0, 1.0}) {
    const at::Tensor value = random_tensor({3, 700}, 1), grad = random_tensor({3, 700}, 2);
    grad.narrow(1, 0, 600).zero_();
    const at::Tensor first = at::zeros_like(value), second = at::zeros_like(value), steps = at::zeros({2}),
                     copy = value.to(GetParam()), other = random_tensor({5}, 3), other_grad = other.clone(),
                     other_first = at::zeros_like(other), other_second = at::zeros_like(other);
    const auto scalar = [](double x) { return at::scalar_tensor(x, at::kFloat); };
    adam_step({value, other}, {grad, other_grad}, {first, other_first}, {second, other_second},
              {copy, at::empty({0}, copy.options())}, steps, {0.1, 0.0}, scalar(0.5), scalar(1), scalar(skip),
              {});
    EXPECT_TRUE(same(copy, value.to(GetParam()))) << "skip " << skip;
  }
}

}  // namespace
}  // namespace finetune::kernels::testing
