
#include "kernels.h"

namespace finetune::kernels::cpu {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row) {
  const int64_t num_rows = rows.numel();
  TORCH_CHECK(cu_seqlens.numel() == num_rows + 1, "gather_batch: ", num_rows, " rows need ", num_rows + 1,
              " cumulative lengths, found ", cu_seqlens.numel());
  const auto ids_options = arena.options();
  at::Tensor input_ids = at::empty({num_tokens}, ids_options);
  at::Tensor token_type_ids = at::empty({num_tokens}, ids_options);
  at::Tensor position_ids = at::empty({num_tokens}, ids_options);
  at::Tensor token_keys = at::empty({num_tokens}, ids_options.dtype(at::kLong));

  const int32_t* tokens = arena.const_data_ptr<int32_t>();
  const int64_t* offsets = row_offsets.const_data_ptr<int64_t>();
  const int32_t* segments = second_segments.const_data_ptr<int32_t>();
  const int64_t* row_indices = rows.const_data_ptr<int64_t>();
  const int32_t* starts = cu_seqlens.const_data_ptr<int32_t>();
  int32_t* out_ids = input_ids.mutable_data_ptr<int32_t>();
  int32_t* out_types = token_type_ids.mutable_data_ptr<int32_t>();
  int32_t* out_positions = position_ids.mutable_data_ptr<int32_t>();
  int64_t* out_keys = token_keys.mutable_data_ptr<int64_t>();

  for (int64_t r = 0; r < num_rows; ++r) {
    const int32_t start = starts[r];
    const int32_t length = starts[r + 1] - start;
    TORCH_CHECK(start >= 0 && length >= 0 && start + length <= num_tokens,
                "gather_batch: cumulative lengths must rise from 0 to ", num_tokens, ", row ", r, " covers ",
                start, " to ", start + length);
    if (length == 0) continue;  // an empty row fills up the batch; its index need not exist
    const int64_t offset = offsets[row_indices[r]];
    const int32_t second_segment = segments[row_indices[r]];
    std::memcpy(out_ids + start, tokens + offset, static_cast<size_t>(length) * sizeof(int32_t));
    for (int32_t position = 0; position < length; ++position) {
      out_types[start + position] = position >= second_segment ? 1 : 0;
      out_positions[start + position] = position;
      out_keys[start + position] = (first_row + r) << 32 | position;
    }
  }
  return {input_ids, token_type_ids, position_ids, token_keys};
}

}  // namespace finetune::kernels::cpu
