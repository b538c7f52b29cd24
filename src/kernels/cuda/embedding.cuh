#pragma once

#include "block.cuh"
#include "rows.cuh"

namespace finetune::kernels::cuda {

/// A table [rows, cols] and the row of it that each token takes; not given: no such table.
struct EmbeddingTable {
  Span<const float> table;
  Span<const int32_t> ids;
  int64_t rows = 0;

  /// Where the token's row begins. An id outside the table stops the kernel with an error.
  FINETUNE_DEVICE int64_t row_start(int64_t token, int64_t cols) const {
    const int64_t id = ids[token];
#if defined(__CUDACC__)
    if (id < 0 || id >= rows) __trap();
#endif
    return id * cols;
  }
};

/// y = word + position + type.
struct EmbeddingSum {
  EmbeddingTable tables[3];
  Span<float> y;
  int64_t num_tokens;
  int64_t cols;

  static constexpr int kThreads = PackPlace::kThreads;
  Grid grid() const { return PackPlace::grid(num_tokens, cols); }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const PackPlace place = PackPlace::of(block);
    const int count = pack_count(place.col, cols);
    if (place.row >= num_tokens || count == 0) return;
    Pack sum = {};
    for (const EmbeddingTable& source : tables) {
      if (!source.table.given()) continue;
      const Pack row = load_pack(source.table, source.row_start(place.row, cols) + place.col, count);
      for (int i = 0; i < kPackSize; ++i) sum.value[i] += row.value[i];
    }
    store_pack(sum, y, place.row * cols + place.col, count);
  }
};

/// The gradient of one embedding table: grad's rows, sorted by the table row they go to, summed run by run
/// without atomic additions, so that it repeats to the bit. Sorted places are cut into chunks. A run that
/// lies within one chunk is added to the table at once; a piece of a run that reaches into other chunks is
/// left in `pieces`, for `EmbeddingLongRuns` to add up.
struct EmbeddingRuns {
  Span<const float> grad;     ///< [N, cols]
  Span<const int32_t> ids;    ///< [N] sorted
  Span<const int64_t> token;  ///< [N] the token of each sorted place
  Span<float> table_grad;     ///< [table_rows, cols]
  Span<float> pieces;  ///< [chunks, 2, cols]: a run going on from the chunk before; one that starts here
  int64_t num_tokens;
  int64_t cols;

  static constexpr int kChunk = 32;
  static constexpr int kChunksPerBlock = 4;
  static constexpr int kThreads = kChunksPerBlock * kWarpSize;
  static int64_t num_chunks(int64_t num_tokens) { return blocks_for(num_tokens, kChunk); }
  Grid grid() const {
    return {.x = blocks_for(num_chunks(num_tokens), kChunksPerBlock), .y = blocks_for(cols, kWarpColumns)};
  }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t chunk = block.x() * kChunksPerBlock + block.thread() / kWarpSize;
    const int64_t col = block.y() * kWarpColumns + block.thread() % kWarpSize * kPackSize;
    const int count = pack_count(col, cols);
    const int64_t first = chunk * kChunk;
    if (first >= num_tokens || count == 0) return;
    const int64_t last = first + kChunk < num_tokens ? first + kChunk : num_tokens;
    Pack sum = {};
    for (int64_t place = first, run_start = first; place < last; ++place) {
      const Pack row = load_pack(grad, token[place] * cols + col, count);
      for (int i = 0; i < kPackSize; ++i) sum.value[i] += row.value[i];
      if (place + 1 < last && ids[place + 1] == ids[place]) continue;
      finish_run(chunk, run_start, place, col, count, sum);
      sum = {};
      run_start = place + 1;
    }
  }

 private:
  FINETUNE_DEVICE void finish_run(int64_t chunk, int64_t begin, int64_t end, int64_t col, int count,
                                  const Pack& sum) const {
    const int32_t id = ids[end];
    const bool goes_on_from_before = begin == chunk * kChunk && begin > 0 && ids[begin - 1] == id;
    const bool goes_on_after = end + 1 < num_tokens && ids[end + 1] == id;
    if (goes_on_from_before || goes_on_after) {
      store_pack(sum, pieces, (chunk * 2 + (goes_on_from_before ? 0 : 1)) * cols + col, count);
      return;
    }
    const int64_t index = id * cols + col;
    Pack row = load_pack(table_grad, index, count);
    for (int i = 0; i < kPackSize; ++i) row.value[i] += sum.value[i];
    store_pack(row, table_grad, index, count);
  }
};

/// Adds up the runs that reach over several chunks, each at the chunk where it starts.
struct EmbeddingLongRuns {
  Span<const int32_t> ids;
  Span<const float> pieces;
  Span<float> table_grad;
  int64_t num_tokens;
  int64_t cols;

  static constexpr int kChunk = EmbeddingRuns::kChunk;
  static constexpr int kThreads = EmbeddingRuns::kThreads;
  Grid grid() const {
    return {.x = blocks_for(EmbeddingRuns::num_chunks(num_tokens), EmbeddingRuns::kChunksPerBlock),
            .y = blocks_for(cols, kWarpColumns)};
  }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    int64_t chunk = block.x() * EmbeddingRuns::kChunksPerBlock + block.thread() / kWarpSize;
    const int64_t col = block.y() * kWarpColumns + block.thread() % kWarpSize * kPackSize;
    const int count = pack_count(col, cols);
    const int64_t first = chunk * kChunk;
    const int64_t next = first + kChunk;
    if (next >= num_tokens || count == 0) return;
    const int32_t id = ids[next - 1];
    const bool starts_here = !(ids[first] == id && first > 0 && ids[first - 1] == id);
    if (ids[next] != id || !starts_here) return;
    Pack sum = load_pack(pieces, (chunk * 2 + 1) * cols + col, count);
    for (++chunk; chunk * kChunk < num_tokens && ids[chunk * kChunk] == id; ++chunk) {
      const Pack piece = load_pack(pieces, chunk * 2 * cols + col, count);
      for (int i = 0; i < kPackSize; ++i) sum.value[i] += piece.value[i];
    }
    const int64_t index = id * cols + col;
    Pack row = load_pack(table_grad, index, count);
    for (int i = 0; i < kPackSize; ++i) row.value[i] += sum.value[i];
    store_pack(row, table_grad, index, count);
  }
};

}  // namespace finetune::kernels::cuda
