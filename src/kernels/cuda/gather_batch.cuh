#pragma once

#include <cstdint>

#include "finetune/kernels/philox.h"

namespace finetune::kernels::cuda {

/// Operands of `finetune::gather_batch` as raw pointers; shapes as in ops.h.
struct GatherBatchArguments {
  const int32_t* arena;
  const int64_t* row_offsets;
  const int32_t* second_segments;
  const int64_t* rows;
  const int32_t* cu_seqlens;
  int64_t num_rows;
  int64_t num_tokens;
  int64_t first_row;
  int32_t* input_ids;
  int32_t* token_type_ids;
  int32_t* position_ids;
  int64_t* token_keys;
};

/// The row that token `token` belongs to: the last one that starts at or before it, so that empty rows own
/// nothing.
FINETUNE_HOST_DEVICE inline int64_t row_of_token(const int32_t* cu_seqlens, int64_t num_rows, int64_t token) {
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

/// What one thread does: one token. The host emulation in the tests runs this same function.
FINETUNE_HOST_DEVICE inline void gather_batch_thread(const GatherBatchArguments& args, int64_t block,
                                                     int64_t block_size, int64_t thread) {
  const int64_t token = block * block_size + thread;
  if (token >= args.num_tokens) return;
  const int64_t batch_row = row_of_token(args.cu_seqlens, args.num_rows, token);
  const int64_t row = args.rows[batch_row];
  const int64_t position = token - args.cu_seqlens[batch_row];
  args.input_ids[token] = args.arena[args.row_offsets[row] + position];
  args.token_type_ids[token] = position >= args.second_segments[row] ? 1 : 0;
  args.position_ids[token] = static_cast<int32_t>(position);
  args.token_keys[token] = (args.first_row + batch_row) << 32 | position;
}

constexpr int64_t kGatherBatchBlockSize = 256;

/// Blocks that cover `num_tokens`.
inline int64_t gather_batch_num_blocks(int64_t num_tokens) {
  return (num_tokens + kGatherBatchBlockSize - 1) / kGatherBatchBlockSize;
}

}  // namespace finetune::kernels::cuda
