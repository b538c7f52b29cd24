#include <gtest/gtest.h>

#include "support.h"

namespace finetune::kernels::testing {
namespace {

constexpr double kEps = 1e-12;
constexpr int64_t kSite = 3;

/// Row counts around those of a block and of a chunk of sums; columns around a pack, a warp and two.
const std::vector<std::pair<int64_t, int64_t>> kSizes{{1, 8}, {5, 7}, {18, 31}, {37, 264}, {3, 520}};

struct NormOperands {
  at::Tensor x, residual, grad, x_bias, weight, bias;
  double probability;
  at::Tensor rng, token_keys;

  NormOperands there() const {
    return {on_device(x),    on_device(residual), on_device(grad), on_device(x_bias),    on_device(weight),
            on_device(bias), probability,         on_device(rng),  on_device(token_keys)};
  }
  /// As the CPU's kernel takes them.
  NormOperands exact() const {
    return {x.to(at::kFloat),
            residual.to(at::kFloat),
            grad.to(at::kFloat),
            x_bias,
            weight,
            bias,
            probability,
            rng,
            token_keys};
  }
};

class CudaNorm : public KernelTest {
 protected:
  NormOperands operands(int64_t rows, int64_t cols, double probability) const {
    const Dropout dropout = make_dropout(probability, kSite, token_keys({rows}, 11));
    return {.x = activations({rows, cols}, 1),
            .residual = activations({rows, cols}, 2),
            .grad = activations({rows, cols}, 3),
            .x_bias = random_tensor({cols}, 4),
            .weight = random_tensor({cols}, 5),
            .bias = random_tensor({cols}, 6),
            .probability = probability,
            .rng = dropout.rng,
            .token_keys = dropout.token_keys};
  }
};
FINETUNE_IN_ALL_PRECISIONS(CudaNorm);

TEST_P(CudaNorm, DropoutEqualsTheCpuKernel) {
  for (const auto& [rows, cols] : kSizes) {
    const NormOperands o = operands(rows, cols, 0.3);
    const auto actual = in_both_orders([&] {
      const NormOperands d = o.there();
      return Tensors{tested::dropout(d.x, 0.3, kSite, d.rng, d.token_keys)};
    });
    const auto expected = operators::dropout(exact(o.x), 0.3, kSite, o.rng, o.token_keys).to(type());
    EXPECT_TRUE(same(actual[0], expected)) << cols;
  }
}

TEST_P(CudaNorm, LayerNormEqualsTheCpuKernel) {
  for (const auto& [rows, cols] : kSizes) {
    const NormOperands o = operands(rows, cols, 0.0);
    const auto actual = in_both_orders([&, n = cols] {
      const NormOperands d = o.there();
      const auto [y, mean, rstd] = tested::layer_norm(d.x, d.weight, d.bias, kEps);
      const at::Tensor weight_grad = on_device(at::zeros({n}));
      const at::Tensor bias_grad = on_device(at::zeros({n}));
      const auto x_grad =
          tested::layer_norm_backward(d.grad, d.x, mean, rstd, d.weight, weight_grad, bias_grad);
      return Tensors{y, mean, rstd, x_grad, weight_grad, bias_grad};
    });
    const NormOperands e = o.exact();
    const auto [y, mean, rstd] = operators::layer_norm(e.x, e.weight, e.bias, kEps);
    const at::Tensor weight_grad = at::zeros({cols});
    const at::Tensor bias_grad = at::zeros({cols});
    const auto x_grad =
        operators::layer_norm_backward(e.grad, e.x, mean, rstd, e.weight, weight_grad, bias_grad);
    SCOPED_TRACE(cols);
    EXPECT_EQ(actual[0].scalar_type(), type());
    EXPECT_EQ(actual[1].scalar_type(), at::kFloat);
    expect_all_close(actual, {y, mean, rstd, x_grad, weight_grad, bias_grad}, tolerance());
  }
}

TEST_P(CudaNorm, DropoutAddLayerNormEqualsTheCpuKernel) {
  for (const double probability : {0.0, 0.2}) {
    for (const auto& [rows, cols] : kSizes) {
      const NormOperands o = operands(rows, cols, probability);
      const auto forward = in_both_orders([&] {
        const NormOperands d = o.there();
        const auto [y, sum, mean, rstd] = tested::dropout_add_layer_norm(
            d.x, d.x_bias, d.residual, d.weight, d.bias, kEps, d.probability, kSite, d.rng, d.token_keys);
        return Tensors{y, sum, mean, rstd};
      });
      const NormOperands e = o.exact();
      const auto [y, sum, mean, rstd] = operators::dropout_add_layer_norm(
          e.x, e.x_bias, e.residual, e.weight, e.bias, kEps, probability, kSite, e.rng, e.token_keys);
      SCOPED_TRACE(cols);
      expect_all_close(forward, {y, sum, mean, rstd}, tolerance());

      const auto backward = in_both_orders([&, n = cols] {
        const NormOperands d = o.there();
        const Tensors sums{on_device(at::zeros({n})), on_device(at::zeros({n})), on_device(at::zeros({n}))};
        const auto [x_grad, residual_grad] = tested::dropout_add_layer_norm_backward(
            d.grad, on_device(forward[1]), on_device(forward[2]), on_device(forward[3]), d.weight,
            d.probability, kSite, d.rng, d.token_keys, sums[0], sums[1], sums[2]);
        return Tensors{x_grad, residual_grad, sums[0], sums[1], sums[2]};
      });
      const Tensors sums{at::zeros({cols}), at::zeros({cols}), at::zeros({cols})};
      const auto [x_grad, residual_grad] = operators::dropout_add_layer_norm_backward(
          e.grad, exact(forward[1]), forward[2], forward[3], e.weight, probability, kSite, e.rng,
          e.token_keys, sums[0], sums[1], sums[2]);
      expect_all_close(backward, {x_grad, residual_grad, sums[0], sums[1], sums[2]}, tolerance());
    }
  }
}

TEST_P(CudaNorm, FrozenParametersGetNoGradient) {
  const NormOperands o = operands(9, 24, 0.2).there();
  const auto [y, sum, mean, rstd] = tested::dropout_add_layer_norm(
      o.x, o.x_bias, o.residual, o.weight, o.bias, kEps, o.probability, kSite, o.rng, o.token_keys);
  const at::Tensor weight_grad = on_device(at::zeros({24}));
  const auto some =
      tested::dropout_add_layer_norm_backward(o.grad, sum, mean, rstd, o.weight, o.probability, kSite, o.rng,
                                              o.token_keys, std::nullopt, weight_grad, std::nullopt);
  const auto none =
      tested::dropout_add_layer_norm_backward(o.grad, sum, mean, rstd, o.weight, o.probability, kSite, o.rng,
                                              o.token_keys, std::nullopt, std::nullopt, std::nullopt);
  EXPECT_TRUE(same(std::get<0>(some), std::get<0>(none)));
  EXPECT_TRUE(same(std::get<1>(some), std::get<1>(none)));
  EXPECT_GT(weight_grad.abs().max().item<float>(), 0.0f);
}

}  // namespace
}  // namespace finetune::kernels::testing
