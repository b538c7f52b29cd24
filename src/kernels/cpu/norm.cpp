#include "kernels.h"
#include "rows.h"

namespace finetune::kernels::cpu {
namespace {

NormRows norm_shape(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias, double eps,
                    const char* op) {
  check_activations(x, op, "x");
  const int64_t cols = x.size(1);
  check_float_vector(weight, cols, op, "weight");
  if (bias != nullptr) check_float_vector(*bias, cols, op, "bias");
  return {x.size(0), cols, weight.const_data_ptr<float>(),
          bias == nullptr ? nullptr : bias->const_data_ptr<float>(), static_cast<float>(eps)};
}

/// `shape` for `rows` rows of it.
NormRows block_of(NormRows shape, int64_t rows) {
  shape.rows = rows;
  return shape;
}

at::Tensor float_per_row(const at::Tensor& x) {
  return at::empty({x.size(0)}, x.options().dtype(at::kFloat));
}

/// The sums over rows that the backward pass of a norm adds to.
struct NormGrads {
  const OptionalTensor& x_bias;
  const OptionalTensor& weight;
  const OptionalTensor& bias;
};

/// Gradients of the normalised sum and, through the dropout mask, of the branch. `x_grad` may be the same
/// tensor as `sum_grad` where nothing is dropped.
void backward_rows(const NormRows& shape, const at::Tensor& grad, const at::Tensor& sum,
                   const at::Tensor& mean, const at::Tensor& rstd, const int64_t* token_keys,
                   const DropoutDraw& draw, const at::Tensor& sum_grad, const at::Tensor& x_grad,
                   const NormGrads& grads) {
  const int64_t cols = shape.cols;
  const float* mean_data = mean.const_data_ptr<float>();
  const float* rstd_data = rstd.const_data_ptr<float>();
  with_activation_type(grad, [&](auto zero) {
    using T = decltype(zero);
    const T* grad_data = grad.const_data_ptr<T>();
    const T* sum_data = sum.const_data_ptr<T>();
    T* sum_grad_data = sum_grad.mutable_data_ptr<T>();
    T* x_grad_data = x_grad.is_same(sum_grad) ? nullptr : x_grad.mutable_data_ptr<T>();
    parallel_rows_with_sums(
        shape.rows, cols, {float_data(grads.weight), float_data(grads.bias), float_data(grads.x_bias)},
        [&](int64_t first, int64_t rows, float* sums) {
          const int64_t start = first * cols;
          isa_kernels().of<T>().layer_norm_backward(
              block_of(shape, rows), grad_data + start, sum_data + start, mean_data + first,
              rstd_data + first, token_keys == nullptr ? nullptr : token_keys + first, draw,
              sum_grad_data + start, x_grad_data == nullptr ? nullptr : x_grad_data + start,
              {.x_bias = grads.x_bias ? sums + 2 * cols : nullptr, .weight = sums, .bias = sums + cols});
        });
  });
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, int64_t site, const at::Tensor& rng,
                   const at::Tensor& token_keys) {
  check_activations(x, "dropout", "x");
  const int64_t cols = x.size(1);
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, x.size(0), "dropout");
  if (draw.threshold == 0) return x.clone();
  at::Tensor y = at::empty_like(x);
  const int64_t* keys = token_keys.const_data_ptr<int64_t>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    parallel_rows(x.size(0), [&](int64_t first, int64_t rows) {
      isa_kernels().of<T>().dropout(in + first * cols, keys + first, out + first * cols, rows, cols, draw);
    });
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double eps) {
  const NormRows shape = norm_shape(x, weight, &bias, eps, "layer_norm");
  at::Tensor y = at::empty_like(x);
  at::Tensor mean = float_per_row(x);
  at::Tensor rstd = float_per_row(x);
  float* mean_data = mean.mutable_data_ptr<float>();
  float* rstd_data = rstd.mutable_data_ptr<float>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    parallel_rows(shape.rows, [&](int64_t first, int64_t rows) {
      const int64_t start = first * shape.cols;
      isa_kernels().of<T>().layer_norm(block_of(shape, rows), in + start, out + start, mean_data + first,
                                       rstd_data + first);
    });
  });
  return {y, mean, rstd};
}

at::Tensor layer_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& rstd, const at::Tensor& weight,
                               const OptionalTensor& weight_grad, const OptionalTensor& bias_grad) {
  const NormRows shape = norm_shape(x, weight, nullptr, 0.0, "layer_norm_backward");
  check_like(grad, x, "layer_norm_backward", "grad");
  at::Tensor x_grad = at::empty_like(x);
  backward_rows(shape, grad, x, mean, rstd, nullptr, DropoutDraw{}, x_grad, x_grad,
                {std::nullopt, weight_grad, bias_grad});
  return x_grad;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> dropout_add_layer_norm(
    const at::Tensor& x, const at::Tensor& x_bias, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, double eps, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys) {
  constexpr auto kOp = "dropout_add_layer_norm";
  const NormRows shape = norm_shape(x, weight, &bias, eps, kOp);
  check_float_vector(x_bias, shape.cols, kOp, "x_bias");
  check_like(residual, x, kOp, "residual");
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, shape.rows, kOp);
  at::Tensor y = at::empty_like(x);
  at::Tensor sum = at::empty_like(x);
  at::Tensor mean = float_per_row(x);
  at::Tensor rstd = float_per_row(x);
  const float* x_bias_data = x_bias.const_data_ptr<float>();
  const int64_t* keys = draw.threshold == 0 ? nullptr : token_keys->const_data_ptr<int64_t>();
  float* mean_data = mean.mutable_data_ptr<float>();
  float* rstd_data = rstd.mutable_data_ptr<float>();
  with_activation_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.const_data_ptr<T>();
    const T* residual_data = residual.const_data_ptr<T>();
    T* out = y.mutable_data_ptr<T>();
    T* sum_data = sum.mutable_data_ptr<T>();
    parallel_rows(shape.rows, [&](int64_t first, int64_t rows) {
      const int64_t start = first * shape.cols;
      isa_kernels().of<T>().dropout_add_layer_norm(
          block_of(shape, rows), in + start, x_bias_data, residual_data + start,
          keys == nullptr ? nullptr : keys + first, draw, out + start, sum_data + start, mean_data + first,
          rstd_data + first);
    });
  });
  return {y, sum, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor> dropout_add_layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& rstd,
    const at::Tensor& weight, double probability, int64_t site, const OptionalTensor& rng,
    const OptionalTensor& token_keys, const OptionalTensor& x_bias_grad, const OptionalTensor& weight_grad,
    const OptionalTensor& bias_grad) {
  constexpr auto kOp = "dropout_add_layer_norm_backward";
  const NormRows shape = norm_shape(sum, weight, nullptr, 0.0, kOp);
  check_like(grad, sum, kOp, "grad");
  const DropoutDraw draw = make_draw(probability, site, rng, token_keys, shape.rows, kOp);
  const bool drops = draw.threshold != 0;
  at::Tensor sum_grad = at::empty_like(sum);
  at::Tensor x_grad = drops ? at::empty_like(sum) : sum_grad;
  backward_rows(shape, grad, sum, mean, rstd, drops ? token_keys->const_data_ptr<int64_t>() : nullptr, draw,
                sum_grad, x_grad, {x_bias_grad, weight_grad, bias_grad});
  return {x_grad, sum_grad};
}

}  // namespace finetune::kernels::cpu
