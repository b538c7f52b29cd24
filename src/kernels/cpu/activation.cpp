#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  check_activations(x, "add_bias", "x");
  const int64_t cols = x.size(1);
  check_float_vector(bias, cols, "add_bias", "bias");
  at::Tensor y = at::empty_like(x);
  const float* bias_data = bias.const_data_ptr<float>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
      isa_kernels().of<T>().add_bias(in + first * cols, bias_data, out + first * cols, rows, cols);
    });
  });
  return y;
}

void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad) {
  check_activations(grad, "add_bias_backward", "grad");
  const int64_t cols = grad.size(1);
  check_float_vector(bias_grad, cols, "add_bias_backward", "bias_grad");
  with_activation_type(grad, [&](auto zero) {
    using T = decltype(zero);
    const T* in = grad.const_data_ptr<T>();
    parallel_rows_with_sums(grad.size(0), cols, {bias_grad.mutable_data_ptr<float>()},
                            [&](int64_t first, int64_t rows, float* sums) {
                              isa_kernels().of<T>().column_sums(in + first * cols, rows, cols, sums);
                            });
  });
}

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
  check_activations(x, "bias_activation", "x");
  const int64_t cols = x.size(1);
  check_float_vector(bias, cols, "bias_activation", "bias");
  at::Tensor y = at::empty_like(x);
  const float* bias_data = bias.const_data_ptr<float>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
      isa_kernels().of<T>().bias_activation(in + first * cols, bias_data, out + first * cols, rows, cols,
                                            activation);
    });
  });
  return y;
}

at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad) {
  check_activations(x, "bias_activation_backward", "x");
  check_like(grad, x, "bias_activation_backward", "grad");
  const int64_t cols = x.size(1);
  at::Tensor x_grad = at::empty_like(x);
  const float* bias_data = bias.const_data_ptr<float>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* grad_data = grad.const_data_ptr<T>();
    const T* in = x.const_data_ptr<T>();
    T* out = x_grad.mutable_data_ptr<T>();
    parallel_rows_with_sums(
        x.size(0), cols, {float_data(bias_grad)}, [&](int64_t first, int64_t rows, float* sums) {
          const int64_t start = first * cols;
          isa_kernels().of<T>().bias_activation_backward(grad_data + start, in + start, bias_data,
                                                         out + start, sums, rows, cols, activation);
        });
  });
  return x_grad;
}

}  // namespace finetune::kernels::cpu
