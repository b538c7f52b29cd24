#include "gather_batch.cuh"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "launch.h"

namespace finetune::kernels::cuda {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> gather_batch(
    const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
    const at::Tensor& rows, const at::Tensor& cu_seqlens, int64_t num_tokens, int64_t first_row) {
  const int64_t num_rows = rows.numel();
  TORCH_CHECK(cu_seqlens.numel() == num_rows + 1, "gather_batch: ", num_rows, " rows need ", num_rows + 1,
              " cumulative lengths, found ", cu_seqlens.numel());
  TORCH_CHECK(num_rows > 0 || num_tokens == 0, "gather_batch: ", num_tokens, " tokens of no rows");
  for (const at::Tensor& operand : {row_offsets, second_segments, rows, cu_seqlens}) {
    TORCH_CHECK(operand.device() == arena.device(), "gather_batch: operands on ", operand.device(), " and ",
                arena.device());
    TORCH_CHECK(operand.is_contiguous(), "gather_batch: an operand is not contiguous");
  }
  const c10::cuda::CUDAGuard guard(arena.device());
  const auto ids_options = arena.options();
  at::Tensor input_ids = at::empty({num_tokens}, ids_options);
  at::Tensor token_type_ids = at::empty({num_tokens}, ids_options);
  at::Tensor position_ids = at::empty({num_tokens}, ids_options);
  at::Tensor token_keys = at::empty({num_tokens}, ids_options.dtype(at::kLong));

  const GatherBatchArguments args{
      .arena = arena.const_data_ptr<int32_t>(),
      .row_offsets = row_offsets.const_data_ptr<int64_t>(),
      .second_segments = second_segments.const_data_ptr<int32_t>(),
      .rows = rows.const_data_ptr<int64_t>(),
      .cu_seqlens = cu_seqlens.const_data_ptr<int32_t>(),
      .num_rows = num_rows,
      .num_tokens = num_tokens,
      .first_row = first_row,
      .input_ids = input_ids.mutable_data_ptr<int32_t>(),
      .token_type_ids = token_type_ids.mutable_data_ptr<int32_t>(),
      .position_ids = position_ids.mutable_data_ptr<int32_t>(),
      .token_keys = token_keys.mutable_data_ptr<int64_t>(),
  };
  C10_CUDA_CHECK(launch_gather_batch(args, c10::cuda::getCurrentCUDAStream()));
  return {input_ids, token_type_ids, position_ids, token_keys};
}

}  // namespace

TORCH_LIBRARY_IMPL(finetune, CUDA, m) { m.impl("gather_batch", gather_batch); }

}  // namespace finetune::kernels::cuda
