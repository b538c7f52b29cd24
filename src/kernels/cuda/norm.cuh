#pragma once

#include "block.cuh"
#include "dropout.cuh"
#include "rows.cuh"

/// Layer normalisation, a warp a row.
namespace finetune::kernels::cuda {

/// y = layer_norm(sum) with sum = dropout(x + x_bias) + residual, or sum = x where there is no residual.
template <typename T>
struct NormForward {
  Span<const T> x;
  Span<const float> x_bias;
  Span<const T> residual;  ///< not given: a plain norm of x
  Span<const float> weight;
  Span<const float> bias;
  float eps;
  DropoutSite dropout;
  Span<T> sum;  ///< written where there is a residual
  Span<T> y;
  Span<float> mean;
  Span<float> rstd;
  int64_t rows;
  int64_t cols;

  static constexpr int kRows = 4;
  static constexpr int kThreads = kRows * kWarpSize;
  Grid grid() const { return {.x = blocks_for(rows, kRows)}; }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t row = block.x() * kRows + block.thread() / kWarpSize;
    if (row >= rows) return;
    const int64_t first = block.thread() % kWarpSize * kPackSize;
    const int64_t start = row * cols;
    // Statistics are those of the sum as it is stored, which the backward pass reads.
    float total = 0.0f;
    for (int64_t col = first; col < cols; col += kWarpColumns) {
      const int count = pack_count(col, cols);
      if (residual.given()) store_sum(row, col, count);
      const Pack values = normalised(start + col, count);
      for (int i = 0; i < kPackSize; ++i) total += values.value[i];
    }
    const float center = warp_sum(block, total) / static_cast<float>(cols);
    float squares = 0.0f;
    for (int64_t col = first; col < cols; col += kWarpColumns) {
      const int count = pack_count(col, cols);
      const Pack values = normalised(start + col, count);
      for (int i = 0; i < count; ++i) {
        const float distance = values.value[i] - center;
        squares += distance * distance;
      }
    }
    const float scale = 1.0f / sqrtf(warp_sum(block, squares) / static_cast<float>(cols) + eps);
    for (int64_t col = first; col < cols; col += kWarpColumns) {
      const int count = pack_count(col, cols);
      Pack values = normalised(start + col, count);
      const Pack factor = load_pack(weight, col, count);
      const Pack shift = load_pack(bias, col, count);
      for (int i = 0; i < kPackSize; ++i) {
        values.value[i] = (values.value[i] - center) * scale * factor.value[i] + shift.value[i];
      }
      store_pack(values, y, start + col, count);
    }
    if (first != 0) return;
    mean[row] = center;
    rstd[row] = scale;
  }

 private:
  FINETUNE_DEVICE void store_sum(int64_t row, int64_t col, int count) const {
    const int64_t index = row * cols + col;
    Pack values = load_pack(x, index, count);
    const Pack shift = load_pack(x_bias, col, count);
    const Pack other = load_pack(residual, index, count);
    for (int i = 0; i < kPackSize; ++i) values.value[i] += shift.value[i];
    values = masked(values, dropout.keep_bits(row, /*head=*/0, col / kPackSize), dropout.scale);
    for (int i = 0; i < kPackSize; ++i) values.value[i] += other.value[i];
    store_pack(values, sum, index, count);
  }

  FINETUNE_DEVICE Pack normalised(int64_t index, int count) const {
    return residual.given() ? load_pack(sum, index, count) : load_pack(x, index, count);
  }
};

/// Gradients of the normalised sum and, through the dropout's mask, of the branch; and the sums over each
/// chunk of rows that the gradients of weight, bias and x_bias are made of.
template <typename T>
struct NormBackward {
  Span<const T> grad;
  Span<const T> sum;
  Span<const float> mean;
  Span<const float> rstd;
  Span<const float> weight;
  DropoutSite dropout;
  Span<T> sum_grad;
  Span<T> x_grad;            ///< not given where nothing is dropped: it equals sum_grad
  Span<float> partial_sums;  ///< [chunks, 3, cols]: weight, bias, x_bias; or not given
  int64_t rows;
  int64_t cols;
  int64_t chunk_rows;

  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * kWarpSize;
  Grid grid() const { return {.x = blocks_for(rows, chunk_rows)}; }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t first = block.x() * chunk_rows;
    const int64_t last = first + chunk_rows < rows ? first + chunk_rows : rows;
    for (int64_t row = first + block.thread() / kWarpSize; row < last; row += kWarps) {
      differentiate_row(block, row);
    }
    if (!partial_sums.given()) return;
    block.sync();  // the columns' sums read what other warps wrote
    for (int64_t col = block.thread(); col < cols; col += kThreads) {
      float weight_sum = 0.0f;
      float bias_sum = 0.0f;
      float branch_sum = 0.0f;
      for (int64_t row = first; row < last; ++row) {
        const int64_t index = row * cols + col;
        const float dy = to_float(grad[index]);
        weight_sum += dy * (to_float(sum[index]) - mean[row]) * rstd[row];
        bias_sum += dy;
        branch_sum += to_float(x_grad.given() ? x_grad[index] : sum_grad[index]);
      }
      const int64_t place = block.x() * kMostSums * cols + col;
      partial_sums[place] = weight_sum;
      partial_sums[place + cols] = bias_sum;
      partial_sums[place + 2 * cols] = branch_sum;
    }
  }

 private:
  template <typename Block>
  FINETUNE_DEVICE void differentiate_row(const Block& block, int64_t row) const {
    const int64_t first = block.thread() % kWarpSize * kPackSize;
    const int64_t start = row * cols;
    const float center = mean[row];
    const float scale = rstd[row];
    float total = 0.0f;
    float product = 0.0f;
    for (int64_t col = first; col < cols; col += kWarpColumns) {
      const int count = pack_count(col, cols);
      const Pack dy = load_pack(grad, start + col, count);
      const Pack values = load_pack(sum, start + col, count);
      const Pack factor = load_pack(weight, col, count);
      for (int i = 0; i < kPackSize; ++i) {
        const float g = dy.value[i] * factor.value[i];
        total += g;
        product += g * (values.value[i] - center) * scale;
      }
    }
    const float mean_grad = warp_sum(block, total) / static_cast<float>(cols);
    const float mean_product = warp_sum(block, product) / static_cast<float>(cols);
    for (int64_t col = first; col < cols; col += kWarpColumns) {
      const int count = pack_count(col, cols);
      Pack dy = load_pack(grad, start + col, count);
      const Pack values = load_pack(sum, start + col, count);
      const Pack factor = load_pack(weight, col, count);
      for (int i = 0; i < kPackSize; ++i) {
        const float standard = (values.value[i] - center) * scale;
        dy.value[i] = (dy.value[i] * factor.value[i] - mean_grad - standard * mean_product) * scale;
      }
      store_pack(dy, sum_grad, start + col, count);
      if (!x_grad.given()) continue;
      const uint32_t bits = dropout.keep_bits(row, /*head=*/0, col / kPackSize);
      store_pack(masked(dy, bits, dropout.scale), x_grad, start + col, count);
    }
  }
};

}  // namespace finetune::kernels::cuda
