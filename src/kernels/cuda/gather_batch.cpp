#include "gather_batch.cuh"

#include "kernels.h"
#include "launch.h"
#include "operands.h"

namespace finetune::kernels::cuda {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row) {
  constexpr auto kOp = "gather_batch";
  const c10::DeviceGuard guard(arena.device());
  const int64_t num_rows = rows.numel();
  TORCH_CHECK(num_rows > 0 || num_tokens == 0, kOp, ": ", num_tokens, " tokens of no rows");
  const at::Tensor input_ids = at::empty({num_tokens}, arena.options());
  const at::Tensor token_type_ids = at::empty({num_tokens}, arena.options());
  const at::Tensor position_ids = at::empty({num_tokens}, arena.options());
  const at::Tensor token_keys = at::empty({num_tokens}, arena.options().dtype(at::kLong));
  launch(GatherBatch{
      .arena = span<const int32_t>(arena, kOp, "arena"),
      .row_offsets = span<const int64_t>(row_offsets, kOp, "row_offsets"),
      .second_segments = span<const int32_t>(second_segments, kOp, "second_segments"),
      .rows = span<const int64_t>(rows, kOp, "rows"),
      .cu_seqlens = span<const int32_t>(cu_seqlens, num_rows + 1, kOp, "cu_seqlens"),
      .num_tokens = num_tokens,
      .first_row = first_row,
      .input_ids = span<int32_t>(input_ids, kOp, "input_ids"),
      .token_type_ids = span<int32_t>(token_type_ids, kOp, "token_type_ids"),
      .position_ids = span<int32_t>(position_ids, kOp, "position_ids"),
      .token_keys = span<int64_t>(token_keys, kOp, "token_keys"),
  });
  return {input_ids, token_type_ids, position_ids, token_keys};
}

}  // namespace finetune::kernels::cuda
