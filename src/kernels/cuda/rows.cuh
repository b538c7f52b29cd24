#pragma once

#include "activation.cuh"
#include "block.cuh"
#include "dropout.cuh"

/// Kernels over rows [rows, cols] of activations. One lane takes 8 consecutive columns at a time.
namespace finetune::kernels::cuda {

/// Columns that a warp covers at once.
constexpr int64_t kWarpColumns = kWarpSize * kPackSize;

/// Where one thread of an element-wise kernel works: one pack of one row. A block takes `kRows` rows.
struct PackPlace {
  static constexpr int kRows = 8;
  static constexpr int kThreads = kRows * kWarpSize;
  static Grid grid(int64_t rows, int64_t cols) {
    return {.x = blocks_for(rows, kRows), .y = blocks_for(cols, kWarpColumns)};
  }

  int64_t row;
  int64_t col;

  template <typename Block>
  FINETUNE_DEVICE static PackPlace of(const Block& block) {
    return {block.x() * kRows + block.thread() / kWarpSize,
            block.y() * kWarpColumns + block.thread() % kWarpSize * kPackSize};
  }
};

/// y = activation(x + bias).
template <typename T>
struct BiasActivation {
  Span<const T> x;
  Span<const float> bias;
  Span<T> y;
  int64_t rows;
  int64_t cols;
  int64_t activation;

  static constexpr int kThreads = PackPlace::kThreads;
  Grid grid() const { return PackPlace::grid(rows, cols); }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const PackPlace place = PackPlace::of(block);
    const int count = pack_count(place.col, cols);
    if (place.row >= rows || count == 0) return;
    const int64_t index = place.row * cols + place.col;
    Pack values = load_pack(x, index, count);
    const Pack shift = load_pack(bias, place.col, count);
    for (int i = 0; i < kPackSize; ++i) {
      values.value[i] = activate(values.value[i] + shift.value[i], activation).value;
    }
    store_pack(values, y, index, count);
  }
};

/// y = dropout(x).
template <typename T>
struct DropoutRows {
  Span<const T> x;
  Span<T> y;
  DropoutSite dropout;
  int64_t rows;
  int64_t cols;

  static constexpr int kThreads = PackPlace::kThreads;
  Grid grid() const { return PackPlace::grid(rows, cols); }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const PackPlace place = PackPlace::of(block);
    const int count = pack_count(place.col, cols);
    if (place.row >= rows || count == 0) return;
    const int64_t index = place.row * cols + place.col;
    const uint32_t bits = dropout.keep_bits(place.row, /*head=*/0, place.col / kPackSize);
    store_pack(masked(load_pack(x, index, count), bits, dropout.scale), y, index, count);
  }
};

/// Rows whose sums one block takes before the blocks' sums are added. A function of the rows alone, so the
/// order of additions is too, and a run repeats to the bit; atomic additions would not.
inline int64_t rows_per_chunk(int64_t rows) {
  constexpr int64_t kFewest = 16;
  constexpr int64_t kMostChunks = 1024;
  const int64_t needed = blocks_for(rows, kMostChunks);
  return needed > kFewest ? needed : kFewest;
}

/// x_grad = grad * slope(x + bias), and the sums of x_grad over each chunk of rows; without `x`, the sums of
/// `grad` alone.
template <typename T>
struct BiasActivationBackward {
  Span<const T> grad;
  Span<const T> x;
  Span<const float> bias;
  Span<T> x_grad;
  Span<float> partial_sums;  ///< [chunks, 1, cols], or not given
  int64_t rows;
  int64_t cols;
  int64_t chunk_rows;
  int64_t activation;

  static constexpr int kThreads = 128;
  Grid grid() const {
    return {.x = blocks_for(cols, kThreads * kPackSize), .y = blocks_for(rows, chunk_rows)};
  }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t col = (block.x() * kThreads + block.thread()) * kPackSize;
    const int count = pack_count(col, cols);
    if (count == 0) return;
    const int64_t first = block.y() * chunk_rows;
    const int64_t last = first + chunk_rows < rows ? first + chunk_rows : rows;
    Pack shift = {};
    if (x.given()) shift = load_pack(bias, col, count);
    Pack sums = {};
    for (int64_t row = first; row < last; ++row) {
      const int64_t index = row * cols + col;
      Pack values = load_pack(grad, index, count);
      if (x.given()) {
        const Pack in = load_pack(x, index, count);
        for (int i = 0; i < kPackSize; ++i) {
          values.value[i] *= activate(in.value[i] + shift.value[i], activation).slope;
        }
        store_pack(values, x_grad, index, count);
      }
      for (int i = 0; i < kPackSize; ++i) sums.value[i] += values.value[i];
    }
    if (partial_sums.given()) store_pack(sums, partial_sums, block.y() * cols + col, count);
  }
};

/// Sums that one backward pass collects at most: x's bias, weight and bias of a norm.
constexpr int kMostSums = 3;

/// targets[s] [cols] += the sums over chunks of partial_sums [chunks, num_sums, cols], in a fixed order.
struct AddPartialSums {
  Span<const float> partial_sums;
  Span<float> targets[kMostSums];  ///< those not given are left out
  int64_t num_chunks;
  int64_t num_sums;
  int64_t cols;

  static constexpr int kParts = 8;
  static constexpr int kThreads = kParts * kWarpSize;
  Grid grid() const { return {.x = blocks_for(cols, kWarpSize), .y = num_sums}; }
  int64_t shared_bytes() const { return kThreads * static_cast<int64_t>(sizeof(float)); }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const Span<float> target = targets[block.y()];
    if (!target.given()) return;
    const Span<float> sums = block.template shared<float>(0, kThreads);
    const int lane = block.thread() % kWarpSize;
    const int part = block.thread() / kWarpSize;
    const int64_t col = block.x() * kWarpSize + lane;
    float sum = 0.0f;
    for (int64_t chunk = part; chunk < num_chunks && col < cols; chunk += kParts) {
      sum += partial_sums[(chunk * num_sums + block.y()) * cols + col];
    }
    sums[block.thread()] = sum;
    block.sync();
    if (part != 0 || col >= cols) return;
    float total = 0.0f;
    for (int i = 0; i < kParts; ++i) total += sums[i * kWarpSize + lane];
    target[col] += total;
  }
};

}  // namespace finetune::kernels::cuda
