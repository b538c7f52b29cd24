#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "finetune/batching/dataset.h"

namespace finetune {

/// Rows packed one after the other, without padding. N tokens, B rows; everything lives on one device.
struct Batch {
  at::Tensor input_ids;       ///< [N] int32
  at::Tensor token_type_ids;  ///< [N] int32
  at::Tensor position_ids;    ///< [N] int32
  at::Tensor token_keys;      ///< [N] int64: row in the update << 32 | position (see kernels::Dropout)
  at::Tensor cu_seqlens;      ///< [B + 1] int32
  at::Tensor labels;          ///< [B], or [P] where there are positions, int64; [B, W] float32; or undefined
  at::Tensor positions;       ///< [P] int64 into the N tokens: what is predicted for; undefined: the rows
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  int64_t max_length = 0;  ///< of the longest row
};

/// Which rows a batch takes, and in which order, as the host knows it before the device does anything.
struct BatchPlan {
  int64_t begin = 0;  ///< first entry in the order
  int64_t num_rows = 0;
  int64_t first_row = 0;  ///< position of the first row in its update
  int64_t num_tokens = 0;
  int64_t max_length = 0;
  int64_t num_targets = 0;  ///< positions that are predicted for, where rows have such
};

/// Packs rows of an arena (see kernels::gather_batch for the tensors) without waiting for the device.
/// rows [B] int64 and cu_seqlens [B + 1] int32 on the arena's device; labels: of these rows, or undefined.
Batch pack_rows(const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
                const at::Tensor& rows, const at::Tensor& cu_seqlens, at::Tensor labels,
                const BatchPlan& plan);

/// Gives a packed batch the positions of its rows' targets, and their labels where the dataset has any,
/// without waiting for the device. rows [B] int64; cu_targets [B + 1] int64: prefix sums of the rows' counts.
void pack_targets(const DeviceDataset& dataset, const at::Tensor& rows, const at::Tensor& cu_targets,
                  int64_t num_targets, Batch& batch);

/// Rows in an order, with the prefix sums of every batch's lengths: two uploads for as many batches as there
/// are.
class BatchSource {
 public:
  /// `order`: row numbers of `dataset`; `plans`: consecutive pieces of it. `dataset` must outlive the source.
  BatchSource(const DeviceDataset& dataset, const std::vector<int64_t>& order,
              const std::vector<BatchPlan>& plans);

  int64_t size() const { return static_cast<int64_t>(plans_.size()); }
  const BatchPlan& plan(int64_t index) const { return plans_.at(static_cast<size_t>(index)); }
  /// Packs a batch on the device. Does not wait for it.
  Batch batch(int64_t index) const;

 private:
  const DeviceDataset* dataset_;
  std::vector<BatchPlan> plans_;
  at::Tensor order_;       ///< [R] int64 on the device
  at::Tensor cu_seqlens_;  ///< every batch's [B + 1] int32, one after the other, on the device
  at::Tensor cu_targets_;  ///< the same of their targets, int64; undefined where rows have none
};

/// Cuts rows [begin, end) of an order into batches of at most `max_rows` rows and, but for a single longer
/// row, at most `max_tokens` tokens. Rows keep their order.
std::vector<BatchPlan> plan_batches(const std::vector<int32_t>& lengths, const std::vector<int64_t>& order,
                                    int64_t begin, int64_t end, int64_t max_rows, int64_t max_tokens);

}  // namespace finetune
