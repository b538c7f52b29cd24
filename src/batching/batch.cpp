#include "finetune/batching/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "finetune/kernels/ops.h"

namespace finetune {

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
  const auto device = dataset.input_ids.device();
  order_ = at::tensor(at::ArrayRef<int64_t>(order), at::kLong).to(device);
  cu_seqlens_ = at::tensor(at::ArrayRef<int32_t>(prefix_sums), at::kInt).to(device);
}

Batch BatchSource::batch(int64_t index) const {
  const BatchPlan& plan = this->plan(index);
  // The batches before this one hold plan.begin rows and one entry more each.
  const auto cu_seqlens = cu_seqlens_.narrow(0, plan.begin - plans_.front().begin + index, plan.num_rows + 1);
  const auto rows = order_.narrow(0, plan.begin, plan.num_rows);
  Batch batch;
  std::tie(batch.input_ids, batch.token_type_ids, batch.position_ids, batch.token_keys) =
      kernels::gather_batch(dataset_->input_ids, dataset_->row_offsets, dataset_->second_segments, rows,
                            cu_seqlens, plan.num_tokens, plan.first_row);
  batch.cu_seqlens = cu_seqlens;
  if (dataset_->labels.defined()) batch.labels = dataset_->labels.index_select(0, rows);
  batch.num_rows = plan.num_rows;
  batch.num_tokens = plan.num_tokens;
  batch.max_length = plan.max_length;
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
