#include <ATen/ops/empty_like.h>

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {
namespace {

at::Tensor add_and_activate(const at::Tensor& x, const at::Tensor& bias, int64_t activation, const char* op) {
  check_activations(x, op, "x");
  const c10::DeviceGuard guard(x.device());
  at::Tensor y = at::empty_like(x);
  with_activation_type(x, op, [&](auto zero) {
    using T = decltype(zero);
    launch(BiasActivation<T>{.x = span<const T>(x, op, "x"),
                             .bias = span<const float>(bias, x.size(1), op, "bias"),
                             .y = span<T>(y, op, "result"),
                             .rows = x.size(0),
                             .cols = x.size(1),
                             .activation = activation});
  });
  return y;
}

}  // namespace

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  return add_and_activate(x, bias, kNoActivation, "add_bias");
}

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
  return add_and_activate(x, bias, activation, "bias_activation");
}

void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad) {
  constexpr auto kOp = "add_bias_backward";
  check_activations(grad, kOp, "grad");
  const c10::DeviceGuard guard(grad.device());
  const RowSums sums(grad.size(0), grad.size(1), {bias_grad}, grad.device(), kOp);
  with_activation_type(grad, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(BiasActivationBackward<T>{.grad = span<const T>(grad, kOp, "grad"),
                                     .x = {},
                                     .bias = {},
                                     .x_grad = {},
                                     .partial_sums = sums.partial_sums(),
                                     .rows = grad.size(0),
                                     .cols = grad.size(1),
                                     .chunk_rows = sums.chunk_rows(),
                                     .activation = kNoActivation});
  });
  sums.add();
}

at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad) {
  constexpr auto kOp = "bias_activation_backward";
  check_activations(x, kOp, "x");
  const c10::DeviceGuard guard(x.device());
  at::Tensor x_grad = at::empty_like(x);
  const RowSums sums(x.size(0), x.size(1), {bias_grad}, x.device(), kOp);
  with_activation_type(x, kOp, [&](auto zero) {
    using T = decltype(zero);
    launch(BiasActivationBackward<T>{.grad = span<const T>(grad, x.numel(), kOp, "grad"),
                                     .x = span<const T>(x, kOp, "x"),
                                     .bias = span<const float>(bias, x.size(1), kOp, "bias"),
                                     .x_grad = span<T>(x_grad, kOp, "result"),
                                     .partial_sums = sums.partial_sums(),
                                     .rows = x.size(0),
                                     .cols = x.size(1),
                                     .chunk_rows = sums.chunk_rows(),
                                     .activation = activation});
  });
  sums.add();
  return x_grad;
}

}  // namespace finetune::kernels::cuda
