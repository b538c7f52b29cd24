#pragma once

#include "block.cuh"

namespace finetune::kernels::cuda {

/// The row that token `token` belongs to: the last one that starts at or before it, so that empty rows own
/// nothing.
FINETUNE_DEVICE int64_t row_of_token(Span<const int32_t> cu_seqlens, int64_t num_rows, int64_t token) {
  int64_t low = 0;
  int64_t high = num_rows;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (cu_seqlens[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// `finetune::gather_batch`, one token a thread; shapes as in ops.h.
struct GatherBatch {
  Span<const int32_t> arena;
  Span<const int64_t> row_offsets;
  Span<const int32_t> second_segments;
  Span<const int64_t> rows;
  Span<const int32_t> cu_seqlens;
  int64_t num_tokens;
  int64_t first_row;
  Span<int32_t> input_ids;
  Span<int32_t> token_type_ids;
  Span<int32_t> position_ids;
  Span<int64_t> token_keys;

  static constexpr int kThreads = 256;
  Grid grid() const { return {.x = blocks_for(num_tokens, kThreads)}; }
  int64_t shared_bytes() const { return 0; }

  template <typename Block>
  FINETUNE_DEVICE void operator()(Block& block) const {
    const int64_t token = block.x() * kThreads + block.thread();
    if (token >= num_tokens) return;
    const int64_t batch_row = row_of_token(cu_seqlens, rows.size, token);
    const int64_t row = rows[batch_row];
    const int64_t position = token - cu_seqlens[batch_row];
    input_ids[token] = arena[row_offsets[row] + position];
    token_type_ids[token] = position >= second_segments[row] ? 1 : 0;
    position_ids[token] = static_cast<int32_t>(position);
    token_keys[token] = (first_row + batch_row) << 32 | position;
  }
};

}  // namespace finetune::kernels::cuda
