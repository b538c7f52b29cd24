#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {
namespace {

NormRows norm_shape(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias, double eps,
                    const char* op) {
  check_float_matrix(x, op, "x");
  const int64_t cols = x.size(1);
  check_float_vector(weight, cols, op, "weight");
  if (bias != nullptr) check_float_vector(*bias, cols, op, "bias");
  return {x.size(0), cols, weight.const_data_ptr<float>(),
          bias == nullptr ? nullptr : bias->const_data_ptr<float>(), static_cast<float>(eps)};
}

/// Gradients of the normalised sum and, through the dropout mask, of the branch. `x_grad` may be null.
void backward_rows(NormRows shape, const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean,
                   const at::Tensor& rstd, const int64_t* token_keys, const DropoutDraw& draw,
                   float* sum_grad, float* x_grad, const OptionalTensor& x_bias_grad,
                   const OptionalTensor& weight_grad, const OptionalTensor& bias_grad) {
  const int64_t cols = shape.cols;
  const float* grad_data = grad.const_data_ptr<float>();
  const float* sum_data = sum.const_data_ptr<float>();
  const float* mean_data = mean.const_data_ptr<float>();
  const float* rstd_data = rstd.const_data_ptr<float>();
  parallel_rows_with_sums(
      shape.rows, cols, {float_data(weight_grad), float_data(bias_grad), float_data(x_bias_grad)},
      [&](int64_t first, int64_t rows, float* sums) {
        NormRows block = shape;
        block.rows = rows;
        const int64_t start = first * cols;
        isa_kernels().layer_norm_backward(
            block, grad_data + start, sum_data + start, mean_data + first, rstd_data + first,
            token_keys == nullptr ? nullptr : token_keys + first, draw, sum_grad + start,
            x_grad == nullptr ? nullptr : x_grad + start,
            {.x_bias = x_bias_grad ? sums + 2 * cols : nullptr, .weight = sums, .bias = sums + cols});
      });
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys) {
  check_float_matrix(x, "dropout", "x");
  const int64_t cols = x.size(1);
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, x.size(0), "dropout");
  if (draw.threshold == 0) return x.clone();
  at::Tensor y = at::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  const int64_t* keys = token_keys.const_data_ptr<int64_t>();
  float* out = y.mutable_data_ptr<float>();
  parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
    isa_kernels().dropout(in + first * cols, keys + first, out + first * cols, rows, cols, draw);
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps) {
  const NormRows shape = norm_shape(x, weight, &bias, eps, "layer_norm");
  at::Tensor y = at::empty_like(x);
  at::Tensor mean = at::empty({shape.rows}, x.options());
  at::Tensor rstd = at::empty({shape.rows}, x.options());
  const float* in = x.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  float* mean_data = mean.mutable_data_ptr<float>();
  float* rstd_data = rstd.mutable_data_ptr<float>();
  parallel_rows(shape.rows, [&](int64_t first, int64_t rows) {
    NormRows block = shape;
    block.rows = rows;
    isa_kernels().layer_norm(block, in + first * shape.cols, out + first * shape.cols, mean_data + first,
                             rstd_data + first);
  });
  return {y, mean, rstd};
}

at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad) {
  check_float_matrix(grad, "layer_norm_backward", "grad");
  const NormRows shape = norm_shape(x, weight, nullptr, 0.0, "layer_norm_backward");
  at::Tensor x_grad = at::empty_like(x);
  backward_rows(shape, grad, x, mean, rstd, nullptr, DropoutDraw{}, x_grad.mutable_data_ptr<float>(), nullptr,
                std::nullopt, weight_grad, bias_grad);
  return x_grad;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys) {
  constexpr auto kOp = "dropout_add_layer_norm";
  const NormRows shape = norm_shape(x, weight, &bias, eps, kOp);
  check_float_vector(x_bias, shape.cols, kOp, "x_bias");
  check_float_matrix(residual, kOp, "residual");
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, shape.rows, kOp);
  at::Tensor y = at::empty_like(x);
  at::Tensor sum = at::empty_like(x);
  at::Tensor mean = at::empty({shape.rows}, x.options());
  at::Tensor rstd = at::empty({shape.rows}, x.options());
  const float* in = x.const_data_ptr<float>();
  const float* x_bias_data = x_bias.const_data_ptr<float>();
  const float* residual_data = residual.const_data_ptr<float>();
  const int64_t* keys = draw.threshold == 0 ? nullptr : token_keys->const_data_ptr<int64_t>();
  float* out = y.mutable_data_ptr<float>();
  float* sum_data = sum.mutable_data_ptr<float>();
  float* mean_data = mean.mutable_data_ptr<float>();
  float* rstd_data = rstd.mutable_data_ptr<float>();
  parallel_rows(shape.rows, [&](int64_t first, int64_t rows) {
    NormRows block = shape;
    block.rows = rows;
    const int64_t start = first * shape.cols;
    isa_kernels().dropout_add_layer_norm(block, in + start, x_bias_data, residual_data + start,
                                         keys == nullptr ? nullptr : keys + first, draw, out + start,
                                         sum_data + start, mean_data + first, rstd_data + first);
  });
  return {y, sum, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad) {
  constexpr auto kOp = "dropout_add_layer_norm_backward";
  check_float_matrix(grad, kOp, "grad");
  const NormRows shape = norm_shape(sum, weight, nullptr, 0.0, kOp);
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, shape.rows, kOp);
  const bool drops = draw.threshold != 0;
  at::Tensor sum_grad = at::empty_like(sum);
  at::Tensor x_grad = drops ? at::empty_like(sum) : sum_grad;
  backward_rows(shape, grad, sum, mean, rstd, drops ? token_keys->const_data_ptr<int64_t>() : nullptr, draw,
                sum_grad.mutable_data_ptr<float>(), drops ? x_grad.mutable_data_ptr<float>() : nullptr,
                x_bias_grad, weight_grad, bias_grad);
  return {x_grad, sum_grad};
}

}  // namespace finetune::kernels::cpu
