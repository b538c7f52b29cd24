#include "finetune/batching/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "finetune/device/transfer.h"
#include "finetune/kernels/ops.h"

namespace finetune {

namespace {

/// Every batch's prefix sums of its rows' targets.
at::Tensor upload_target_sums(const DeviceDataset& dataset, const std::vector<int64_t>& order,
                              std::vector<BatchPlan>& plans) {
  std::vector<int64_t> sums;
  sums.reserve(order.size() + plans.size());
  for (BatchPlan& plan : plans) {
    int64_t sum = 0;
    sums.push_back(sum);
    for (int64_t i = plan.begin; i < plan.begin + plan.num_rows; ++i) {
      const int64_t row = order[static_cast<size_t>(i)];
      const auto [first, last] = dataset.labels_of(row, row + 1);
      sum += last - first;
      sums.push_back(sum);
    }
    plan.num_targets = sum;
  }
  return upload(sums, dataset.device());
}

}  // namespace

BatchSource::BatchSource(const DeviceDataset& dataset, const std::vector<int64_t>& order,
                         const std::vector<BatchPlan>& plans)
    : dataset_(&dataset), plans_(plans) {
  std::vector<int32_t> prefix_sums;
  prefix_sums.reserve(order.size() + plans.size());
  for (const BatchPlan& plan : plans_) {
    int32_t sum = 0;
    prefix_sums.push_back(sum);
    for (int64_t i = plan.begin; i < plan.begin + plan.num_rows; ++i) {
      sum += dataset.lengths[static_cast<size_t>(order[static_cast<size_t>(i)])];
      prefix_sums.push_back(sum);
    }
  }
  if (dataset.has_targets()) cu_targets_ = upload_target_sums(dataset, order, plans_);
  order_ = upload(order, dataset.device());
  cu_seqlens_ = upload(prefix_sums, dataset.device());
}

Batch pack_rows(const at::Tensor& arena, const at::Tensor& row_offsets, const at::Tensor& second_segments,
                const at::Tensor& rows, const at::Tensor& cu_seqlens, at::Tensor labels,
                const BatchPlan& plan) {
  Batch batch;
  std::tie(batch.input_ids, batch.token_type_ids, batch.position_ids, batch.token_keys) =
      kernels::gather_batch(arena, row_offsets, second_segments, rows, cu_seqlens, plan.num_tokens,
                            plan.first_row);
  batch.cu_seqlens = cu_seqlens;
  batch.labels = std::move(labels);
  batch.num_rows = plan.num_rows;
  batch.num_tokens = plan.num_tokens;
  batch.max_length = plan.max_length;
  return batch;
}

void pack_targets(const DeviceDataset& dataset, const at::Tensor& rows, const at::Tensor& cu_targets,
                  int64_t num_targets, Batch& batch) {
  const auto targets = at::arange(num_targets, cu_targets.options());
  // A target is of the row before which so many rows end: no size is asked of the device.
  const auto row_of_target =
      at::searchsorted(cu_targets.narrow(0, 1, rows.size(0)), targets, /*out_int32=*/false, /*right=*/true);
  const auto shift = dataset.target_offsets.index_select(0, rows) - cu_targets.narrow(0, 0, rows.size(0));
  const auto target = targets + shift.index_select(0, row_of_target);
  batch.positions =
      dataset.target_positions.index_select(0, target) + batch.cu_seqlens.index_select(0, row_of_target);
  if (dataset.labels.defined()) batch.labels = dataset.labels.index_select(0, target);
}

Batch BatchSource::batch(int64_t index) const {
  const BatchPlan& plan = this->plan(index);
  // The batches before this one hold plan.begin rows and one entry more each.
  const int64_t first_sum = plan.begin - plans_.front().begin + index;
  const auto cu_seqlens = cu_seqlens_.narrow(0, first_sum, plan.num_rows + 1);
  const auto rows = order_.narrow(0, plan.begin, plan.num_rows);
  at::Tensor labels;
  if (dataset_->labels.defined() && !dataset_->has_targets()) labels = dataset_->labels.index_select(0, rows);
  Batch batch = pack_rows(dataset_->input_ids, dataset_->row_offsets, dataset_->second_segments, rows,
                          cu_seqlens, std::move(labels), plan);
  if (dataset_->has_targets()) {
    pack_targets(*dataset_, rows, cu_targets_.narrow(0, first_sum, plan.num_rows + 1), plan.num_targets,
                 batch);
  }
  return batch;
}

std::vector<BatchPlan> plan_batches(const std::vector<int32_t>& lengths, const std::vector<int64_t>& order,
                                    int64_t begin, int64_t end, int64_t max_rows, int64_t max_tokens) {
  const int64_t row_limit = max_rows > 0 ? max_rows : std::numeric_limits<int64_t>::max();
  const int64_t token_limit = max_tokens > 0 ? max_tokens : std::numeric_limits<int64_t>::max();
  std::vector<BatchPlan> plans;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t length = lengths[static_cast<size_t>(order[static_cast<size_t>(i)])];
    if (plans.empty() || plans.back().num_rows >= row_limit ||
        plans.back().num_tokens + length > token_limit) {
      plans.push_back({.begin = i, .first_row = i - begin});
    }
    BatchPlan& plan = plans.back();
    ++plan.num_rows;
    plan.num_tokens += length;
    plan.max_length = std::max(plan.max_length, length);
  }
  return plans;
}

}  // namespace finetune
