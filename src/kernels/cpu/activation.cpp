#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {

at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias) {
  check_float_matrix(x, "add_bias", "x");
  const int64_t cols = x.size(1);
  check_float_vector(bias, cols, "add_bias", "bias");
  at::Tensor y = at::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  const float* bias_data = bias.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
    isa_kernels().add_bias(in + first * cols, bias_data, out + first * cols, rows, cols);
  });
  return y;
}

void add_bias_backward(const at::Tensor& grad, const at::Tensor& bias_grad) {
  check_float_matrix(grad, "add_bias_backward", "grad");
  const int64_t cols = grad.size(1);
  check_float_vector(bias_grad, cols, "add_bias_backward", "bias_grad");
  const float* in = grad.const_data_ptr<float>();
  parallel_rows_with_sums(grad.size(0), cols, {bias_grad.mutable_data_ptr<float>()},
                          [&](int64_t first, int64_t rows, float* sums) {
                            isa_kernels().column_sums(in + first * cols, rows, cols, sums);
                          });
}

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, int64_t activation) {
  check_float_matrix(x, "bias_activation", "x");
  const int64_t cols = x.size(1);
  check_float_vector(bias, cols, "bias_activation", "bias");
  at::Tensor y = at::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  const float* bias_data = bias.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
    isa_kernels().bias_activation(in + first * cols, bias_data, out + first * cols, rows, cols, activation);
  });
  return y;
}

at::Tensor bias_activation_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias,
                                    int64_t activation, const OptionalTensor& bias_grad) {
  check_float_matrix(grad, "bias_activation_backward", "grad");
  check_float_matrix(x, "bias_activation_backward", "x");
  const int64_t cols = x.size(1);
  at::Tensor x_grad = at::empty_like(x);
  const float* grad_data = grad.const_data_ptr<float>();
  const float* in = x.const_data_ptr<float>();
  const float* bias_data = bias.const_data_ptr<float>();
  float* out = x_grad.mutable_data_ptr<float>();
  parallel_rows_with_sums(x.size(0), cols, {float_data(bias_grad)},
                          [&](int64_t first, int64_t rows, float* sums) {
                            const int64_t start = first * cols;
                            isa_kernels().bias_activation_backward(grad_data + start, in + start, bias_data,
                                                                   out + start, sums, rows, cols, activation);
                          });
  return x_grad;
}

}  // namespace finetune::kernels::cpu
