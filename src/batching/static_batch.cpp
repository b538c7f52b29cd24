#include "finetune/batching/static_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "finetune/device/transfer.h"

namespace finetune {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t token_step(int64_t num_tokens) {
  constexpr uint64_t kFinest = 64;
  return static_cast<int64_t>(std::max(kFinest, std::bit_floor(static_cast<uint64_t>(num_tokens)) / 8));
}

int64_t length_step(int64_t max_length) { return max_length <= 128 ? 16 : 64; }

/// Filling rows are no longer than any batch's longest of this bucket, so that no model lacks positions for
/// them.
int64_t filler_length(int64_t max_length) {
  constexpr int64_t kShortest = 8;
  return std::max(kShortest, max_length - length_step(max_length));
}

/// Rows that the free tokens of a batch may need.
int64_t most_filler_rows(int64_t num_tokens, int64_t max_length) {
  const int64_t length = filler_length(max_length);
  return (token_step(num_tokens) + length - 1) / length;
}

/// Prefix sums of the lengths of the rows that fill `free_tokens` after the batch's own: empty ones first, so
/// that each begins at a token.
std::vector<int32_t> filler_offsets(int64_t num_rows, int64_t num_tokens, const BatchShape& shape) {
  std::vector<int32_t> offsets(static_cast<size_t>(shape.num_rows - num_rows));
  int64_t end = shape.num_tokens;
  for (auto offset = offsets.rbegin(); offset != offsets.rend(); ++offset) {
    *offset = static_cast<int32_t>(end);
    end = std::max(num_tokens, end - filler_length(shape.max_length));
  }
  return offsets;
}

}  // namespace

BatchShape bucket_of(const Batch& batch, int64_t most_rows) {
  BatchShape shape;
  // One token at least is free: empty rows need a place to point to.
  shape.num_tokens = round_up(batch.num_tokens + 1, token_step(batch.num_tokens));
  shape.max_length = round_up(batch.max_length, length_step(batch.max_length));
  shape.num_rows = most_rows + most_filler_rows(batch.num_tokens, shape.max_length);
  if (batch.positions.defined()) {
    const int64_t num_positions = batch.positions.size(0);
    shape.num_positions = round_up(std::max<int64_t>(num_positions, 1), token_step(num_positions));
  }
  return shape;
}

StaticBatch::StaticBatch(const BatchShape& shape, int64_t ignore_index, c10::Device device)
    : shape_(shape), ignore_index_(ignore_index) {
  const auto int32 = at::TensorOptions(at::kInt).device(device);
  const auto int64 = at::TensorOptions(at::kLong).device(device);
  batch_.input_ids = at::zeros({shape.num_tokens}, int32);
  batch_.token_type_ids = at::zeros({shape.num_tokens}, int32);
  batch_.position_ids = at::zeros({shape.num_tokens}, int32);
  batch_.token_keys = at::zeros({shape.num_tokens}, int64);
  batch_.cu_seqlens = at::zeros({shape.num_rows + 1}, int32);
  if (shape.num_positions > 0) batch_.positions = at::zeros({shape.num_positions}, int64);
  batch_.labels =
      at::full({shape.num_positions > 0 ? shape.num_positions : shape.num_rows}, ignore_index, int64);
  batch_.num_rows = shape.num_rows;
  batch_.num_tokens = shape.num_tokens;
  batch_.max_length = shape.max_length;
}

void StaticBatch::load(const Batch& batch) {
  const auto begin_of = [](const at::Tensor& into, const at::Tensor& from) {
    into.narrow(0, 0, from.size(0)).copy_(from);
  };
  // What was there before stays behind the batch's tokens: ids and positions that the model knows.
  begin_of(batch_.input_ids, batch.input_ids);
  begin_of(batch_.token_type_ids, batch.token_type_ids);
  begin_of(batch_.position_ids, batch.position_ids);
  begin_of(batch_.token_keys, batch.token_keys);
  begin_of(batch_.cu_seqlens, batch.cu_seqlens);
  const std::vector<int32_t> filler = filler_offsets(batch.num_rows, batch.num_tokens, shape_);
  batch_.cu_seqlens.narrow(0, batch.num_rows + 1, static_cast<int64_t>(filler.size()))
      .copy_(upload(filler, batch_.cu_seqlens.device()));
  if (batch_.positions.defined()) begin_of(batch_.positions, batch.positions);
  batch_.labels.fill_(ignore_index_);
  begin_of(batch_.labels, batch.labels);
}

}  // namespace finetune
