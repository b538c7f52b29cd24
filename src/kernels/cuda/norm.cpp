#include "norm.cuh"

#include <ATen/ops/empty_like.h>

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {
namespace {

at::Tensor float_per_row(const at::Tensor& x) {
  return at::empty({x.size(0)}, x.options().dtype(at::kFloat));
}

/// What both backward operators hand to the kernel.
struct NormGradients {
  const OptionalTensor& weight;
  const OptionalTensor& bias;
  const OptionalTensor& x_bias;
};

/// x_grad may be undefined.
void differentiate(const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean,
                   const at::Tensor& rstd, const at::Tensor& weight, const DropoutSite& site,
                   const at::Tensor& sum_grad, const at::Tensor& x_grad, const NormGradients& wanted,
                   const char* op) {
  const int64_t rows = sum.size(0);
  const int64_t cols = sum.size(1);
  const RowSums sums(rows, cols, {wanted.weight, wanted.bias, wanted.x_bias}, sum.device(), op);
  with_activation_type(sum, op, [&](auto zero) {
    using T = decltype(zero);
    launch(NormBackward<T>{.grad = span<const T>(grad, sum.numel(), op, "grad"),
                           .sum = span<const T>(sum, op, "sum"),
                           .mean = span<const float>(mean, rows, op, "mean"),
                           .rstd = span<const float>(rstd, rows, op, "rstd"),
                           .weight = span<const float>(weight, cols, op, "weight"),
                           .dropout = site,
                           .sum_grad = span<T>(sum_grad, op, "result"),
                           .x_grad = x_grad.defined() ? span<T>(x_grad, op, "result") : Span<T>{},
                           .partial_sums = sums.partial_sums(),
                           .rows = rows,
                           .cols = cols,
                           .chunk_rows = sums.chunk_rows()});
  });
  sums.add();
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys) {
  constexpr auto kOp = "dropout";
  check_activations(x, kOp, "x");
  const c10::DeviceGuard guard(x.device());
  at::Tensor y = at::empty_like(x);
  const DropoutSite draw = dropout_site(probability, site, rng, token_keys, x.size(0), kOp);
  with_activation_type(x, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(DropoutRows<T>{.x = span<const T>(x, kOp, "x"),
                          .y = span<T>(y, kOp, "result"),
                          .dropout = draw,
                          .rows = x.size(0),
                          .cols = x.size(1)});
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps) {
  constexpr auto kOp = "layer_norm";
  check_activations(x, kOp, "x");
  const c10::DeviceGuard guard(x.device());
  at::Tensor y = at::empty_like(x);
  at::Tensor mean = float_per_row(x);
  at::Tensor rstd = float_per_row(x);
  with_activation_type(x, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(NormForward<T>{.x = span<const T>(x, kOp, "x"),
                          .x_bias = {},
                          .residual = {},
                          .weight = span<const float>(weight, x.size(1), kOp, "weight"),
                          .bias = span<const float>(bias, x.size(1), kOp, "bias"),
                          .eps = static_cast<float>(eps),
                          .dropout = {},
                          .sum = {},
                          .y = span<T>(y, kOp, "result"),
                          .mean = span<float>(mean, kOp, "mean"),
                          .rstd = span<float>(rstd, kOp, "rstd"),
                          .rows = x.size(0),
                          .cols = x.size(1)});
  });
  return {y, mean, rstd};
}

at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad) {
  constexpr auto kOp = "layer_norm_backward";
  check_activations(x, kOp, "x");
  const c10::DeviceGuard guard(x.device());
  at::Tensor x_grad = at::empty_like(x);
  differentiate(grad, x, mean, rstd, weight, {}, x_grad, {}, {weight_grad, bias_grad, std::nullopt}, kOp);
  return x_grad;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys) {
  constexpr auto kOp = "dropout_add_layer_norm";
  check_activations(x, kOp, "x");
  const c10::DeviceGuard guard(x.device());
  const int64_t cols = x.size(1);
  at::Tensor y = at::empty_like(x);
  at::Tensor sum = at::empty_like(x);
  at::Tensor mean = float_per_row(x);
  at::Tensor rstd = float_per_row(x);
  const DropoutSite draw = dropout_site(probability, site, rng, token_keys, x.size(0), kOp);
  with_activation_type(x, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(NormForward<T>{.x = span<const T>(x, kOp, "x"),
                          .x_bias = span<const float>(x_bias, cols, kOp, "x_bias"),
                          .residual = span<const T>(residual, x.numel(), kOp, "residual"),
                          .weight = span<const float>(weight, cols, kOp, "weight"),
                          .bias = span<const float>(bias, cols, kOp, "bias"),
                          .eps = static_cast<float>(eps),
                          .dropout = draw,
                          .sum = span<T>(sum, kOp, "sum"),
                          .y = span<T>(y, kOp, "result"),
                          .mean = span<float>(mean, kOp, "mean"),
                          .rstd = span<float>(rstd, kOp, "rstd"),
                          .rows = x.size(0),
                          .cols = cols});
  });
  return {y, sum, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad) {
  constexpr auto kOp = "dropout_add_layer_norm_backward";
  check_activations(sum, kOp, "sum");
  const c10::DeviceGuard guard(sum.device());
  const DropoutSite draw = dropout_site(probability, site, rng, token_keys, sum.size(0), kOp);
  at::Tensor sum_grad = at::empty_like(sum);
  const at::Tensor x_grad = draw.active() ? at::empty_like(sum) : at::Tensor();
  differentiate(grad, sum, mean, rstd, weight, draw, sum_grad, x_grad, {weight_grad, bias_grad, x_bias_grad},
                kOp);
  return {x_grad.defined() ? x_grad : sum_grad, sum_grad};
}

}  // namespace finetune::kernels::cuda
