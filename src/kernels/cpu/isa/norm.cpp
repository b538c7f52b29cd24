#include <algorithm>
#include <cmath>

#include "functions.h"
#include "keep_bits.h"

namespace finetune::kernels::cpu {
inline namespace CPU_CAPABILITY {
namespace {

/// Mean and reciprocal deviation of `x`, whose sum is known, then the normalised row.
template <typename T>
inline void normalise(const NormRows& shape, const T* x, float total, T* y, float* mean, float* rstd) {
  const auto count = static_cast<float>(shape.cols);
  const float center = total / count;
  Vec squares(0.0f);
  for_vectors(shape.cols, [&](int64_t c, auto part) {
    const Vec distance = part.only(part.load(x + c) - Vec(center));
    squares = at::vec::fmadd(distance, distance, squares);
  });
  const float scale = 1.0f / std::sqrt(sum(squares) / count + shape.eps);
  for_vectors(shape.cols, [&](int64_t c, auto part) {
    const Vec standard = (part.load(x + c) - Vec(center)) * Vec(scale);
    part.store(at::vec::fmadd(standard, part.load(shape.weight + c), part.load(shape.bias + c)), y + c);
  });
  *mean = center;
  *rstd = scale;
}

/// out = dropout(x + x_bias) + residual of one row; returns its sum.
template <typename T>
inline float add_row(const NormRows& shape, const T* x, const float* x_bias, const T* residual,
                     int64_t token_key, const DropoutDraw& draw, T* out) {
  Vec total(0.0f);
  RowMask mask;
  const Vec scale(draw.scale);
  for (int64_t first = 0; first < shape.cols; first += kMaskFeatures) {
    const int64_t count = std::min(kMaskFeatures, shape.cols - first);
    mask.draw(draw, token_key, first, count);
    for_vectors(count, [&](int64_t c, auto part) {
      const Vec branch = (part.load(x + first + c) + part.load(x_bias + first + c)) * scale;
      const Vec value = masked(mask.bits(), c, branch) + part.load(residual + first + c);
      part.store(value, out + first + c);
      total = total + value;  // loads past the end are 0
    });
  }
  return sum(total);
}

template <typename T>
inline float add_row_without_dropout(const NormRows& shape, const T* x, const float* x_bias,
                                     const T* residual, T* out) {
  Vec total(0.0f);
  for_vectors(shape.cols, [&](int64_t c, auto part) {
    const Vec value = part.load(x + c) + part.load(x_bias + c) + part.load(residual + c);
    part.store(value, out + c);
    total = total + value;
  });
  return sum(total);
}

/// The two means that the gradient of a normalised row takes off: of g and of g * standard, where g is grad *
/// weight. Adds to the sums of weight and bias on the way.
template <typename T>
inline void row_means(const NormRows& shape, const T* grad, const T* x, float mean, float rstd,
                      const NormGradSums& sums, float& mean_grad, float& mean_product) {
  Vec total(0.0f);
  Vec product(0.0f);
  for_vectors(shape.cols, [&](int64_t c, auto part) {
    const Vec dy = part.load(grad + c);
    const Vec standard = (part.load(x + c) - Vec(mean)) * Vec(rstd);
    const Vec dy_standard = dy * standard;
    part.store(part.load(sums.bias + c) + dy, sums.bias + c);
    part.store(part.load(sums.weight + c) + dy_standard, sums.weight + c);
    const Vec weight = part.load(shape.weight + c);
    total = at::vec::fmadd(dy, weight, total);
    product = at::vec::fmadd(dy_standard, weight, product);
  });
  const auto count = static_cast<float>(shape.cols);
  mean_grad = sum(total) / count;
  mean_product = sum(product) / count;
}

template <typename T>
void layer_norm_rows(const NormRows& shape, const T* x, T* y, float* mean, float* rstd) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const T* in = x + row * shape.cols;
    Vec total(0.0f);
    for_vectors(shape.cols, [&](int64_t c, auto part) { total = total + part.load(in + c); });
    normalise(shape, in, sum(total), y + row * shape.cols, mean + row, rstd + row);
  }
}

template <typename T>
void dropout_add_layer_norm_rows(const NormRows& shape, const T* x, const float* x_bias, const T* residual,
                                 const int64_t* token_keys, const DropoutDraw& draw, T* y, T* sum_out,
                                 float* mean, float* rstd) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.cols;
    const float total =
        draw.threshold == 0
            ? add_row_without_dropout(shape, x + start, x_bias, residual + start, sum_out + start)
            : add_row(shape, x + start, x_bias, residual + start, token_keys[row], draw, sum_out + start);
    normalise(shape, sum_out + start, total, y + start, mean + row, rstd + row);
  }
}

template <typename T>
void layer_norm_backward_rows(const NormRows& shape, const T* grad, const T* sum_in, const float* mean,
                              const float* rstd, const int64_t* token_keys, const DropoutDraw& draw,
                              T* sum_grad, T* x_grad, const NormGradSums& sums) {
  RowMask mask;
  const Vec scale(draw.scale);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.cols;
    float mean_grad = 0.0f;
    float mean_product = 0.0f;
    row_means(shape, grad + start, sum_in + start, mean[row], rstd[row], sums, mean_grad, mean_product);
    for (int64_t first = 0; first < shape.cols; first += kMaskFeatures) {
      const int64_t count = std::min(kMaskFeatures, shape.cols - first);
      if (x_grad != nullptr) mask.draw(draw, token_keys[row], first, count);
      for_vectors(count, [&](int64_t offset, auto part) {
        const int64_t c = first + offset;
        const Vec standard = (part.load(sum_in + start + c) - Vec(mean[row])) * Vec(rstd[row]);
        const Vec g = part.load(grad + start + c) * part.load(shape.weight + c) - Vec(mean_grad);
        const Vec result = at::vec::fnmadd(standard, Vec(mean_product), g) * Vec(rstd[row]);
        part.store(result, sum_grad + start + c);
        Vec branch = result;
        if (x_grad != nullptr) {
          branch = masked(mask.bits(), offset, result * scale);
          part.store(branch, x_grad + start + c);
        }
        if (sums.x_bias != nullptr) part.store(part.load(sums.x_bias + c) + branch, sums.x_bias + c);
      });
    }
  }
}

}  // namespace

template <typename T>
void put_norm_kernels(ActivationKernels<T>& kernels) {
  kernels.layer_norm = layer_norm_rows<T>;
  kernels.dropout_add_layer_norm = dropout_add_layer_norm_rows<T>;
  kernels.layer_norm_backward = layer_norm_backward_rows<T>;
}
FINETUNE_FOR_ACTIVATION_TYPES(put_norm_kernels)

}  // namespace CPU_CAPABILITY
}  // namespace finetune::kernels::cpu
