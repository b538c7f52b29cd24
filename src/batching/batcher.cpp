#include "finetune/batching/batcher.h"

#include <algorithm>
#include <numeric>

#include "finetune/core/error.h"
#include "finetune/device/random.h"

namespace finetune {

std::vector<int64_t> epoch_order(int64_t num_rows, uint64_t seed, int64_t epoch, bool shuffle) {
  std::vector<int64_t> order(static_cast<size_t>(num_rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) return order;
  CounterRandom random(seed, static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }
  return order;
}

Batcher::Batcher(const DeviceDataset& dataset, std::vector<double> label_weights, const Options& options)
    : dataset_(&dataset), label_weights_(std::move(label_weights)), options_(options) {
  const int64_t num_rows = dataset.num_rows();
  steps_per_epoch_ = options.drop_last ? num_rows / options.batch_size
                                       : (num_rows + options.batch_size - 1) / options.batch_size;
  if (steps_per_epoch_ == 0) {
    throw DataError("the training data has " + std::to_string(num_rows) + " rows, train.batch_size is " +
                    std::to_string(options.batch_size) +
                    " and train.drop_last is set: not one update can be made; lower "
                    "the batch size or unset drop_last");
  }
}

void Batcher::enter_epoch(int64_t epoch) {
  epoch_ = epoch;
  order_ = epoch_order(dataset_->num_rows(), options_.seed, epoch, options_.shuffle);
  std::vector<BatchPlan> plans;
  first_plan_.clear();
  for (int64_t step = 0; step < steps_per_epoch_; ++step) {
    first_plan_.push_back(static_cast<int64_t>(plans.size()));
    const int64_t begin = step * options_.batch_size;
    const int64_t end = std::min(begin + options_.batch_size, dataset_->num_rows());
    const auto micro = plan_batches(dataset_->lengths, order_, begin, end, options_.micro_batch_rows,
                                    options_.micro_batch_tokens);
    plans.insert(plans.end(), micro.begin(), micro.end());
  }
  first_plan_.push_back(static_cast<int64_t>(plans.size()));
  source_ = std::make_unique<BatchSource>(*dataset_, order_, plans);
}

StepBatch Batcher::at(int64_t step) {
  const int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) enter_epoch(epoch);
  const auto index = static_cast<size_t>(step % steps_per_epoch_);
  StepBatch result;
  for (int64_t i = first_plan_[index]; i < first_plan_[index + 1]; ++i) {
    result.micro_batches.push_back(source_->batch(i));
    result.num_tokens += source_->plan(i).num_tokens;
  }
  const auto begin = order_.begin() + static_cast<int64_t>(index) * options_.batch_size;
  const auto end = order_.begin() + std::min<int64_t>((static_cast<int64_t>(index) + 1) * options_.batch_size,
                                                      dataset_->num_rows());
  result.rows.assign(begin, end);
  for (const int64_t row : result.rows) result.label_weight += label_weights_[static_cast<size_t>(row)];
  return result;
}

}  // namespace finetune
