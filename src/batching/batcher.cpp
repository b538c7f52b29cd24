#include "finetune/batching/batcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "epoch_plan.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/device/random.h"
#include "prefetcher.h"

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

Batcher::Batcher(DeviceDataset& dataset, std::vector<double> label_weights, const Options& options)
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
  forget_plans();
}

Batcher::~Batcher() = default;

void Batcher::forget_plans() {
  prefetcher_.reset();
  source_.reset();
  epoch_ = -1;
  plans_ = std::make_shared<EpochPlans>(dataset_->lengths, options_, steps_per_epoch_);
}

bool Batcher::streamed() const { return dataset_->device() != options_.device; }

void Batcher::make_resident() {
  prefetcher_.reset();
  *dataset_ = dataset_->to(options_.device);
  epoch_ = -1;
}

void Batcher::set_micro_batch_tokens(int64_t tokens) {
  options_.micro_batch_tokens = tokens;
  forget_plans();
}

int64_t Batcher::micro_batch_rows() const { return plans_->most_rows(); }

bool Batcher::halve_micro_batches(int64_t step) {
  const auto plan = plans_->at(step / steps_per_epoch_);
  const auto window = static_cast<size_t>(step % steps_per_epoch_);
  int64_t most_tokens = 0;
  for (int64_t i = plan->first_micro_batch[window]; i < plan->first_micro_batch[window + 1]; ++i) {
    const BatchPlan& micro = plan->micro_batches[static_cast<size_t>(i)];
    if (micro.num_rows > 1) most_tokens = std::max(most_tokens, micro.num_tokens);
  }
  if (most_tokens == 0) return false;
  set_micro_batch_tokens(most_tokens / 2);
  return true;
}

void Batcher::enter_epoch(int64_t epoch) {
  plan_ = plans_->at(epoch);
  source_.reset();
  if (!streamed()) source_ = std::make_unique<BatchSource>(*dataset_, plan_->order, plan_->micro_batches);
  epoch_ = epoch;
}

Batch Batcher::micro_batch(int64_t index) {
  if (source_) return source_->batch(index);
  const PrefetchRing::Position wanted{epoch_, index};
  if (!prefetcher_ || prefetcher_->next() != wanted) {
    prefetcher_.reset();
    prefetcher_ =
        std::make_unique<Prefetcher>(*dataset_, options_.device, plans_, wanted, options_.num_workers);
  }
  return prefetcher_->take();
}

StepBatch Batcher::at(int64_t step) {
  const int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) enter_epoch(epoch);
  const int64_t window = step % steps_per_epoch_;
  const auto& first = plan_->first_micro_batch;
  StepBatch result;
  for (int64_t i = first[static_cast<size_t>(window)]; i < first[static_cast<size_t>(window) + 1]; ++i) {
    result.micro_batches.push_back(micro_batch(i));
    result.num_tokens += result.micro_batches.back().num_tokens;
  }
  const auto begin = plan_->order.begin() + window * options_.batch_size;
  const auto end = plan_->order.begin() + std::min((window + 1) * options_.batch_size, dataset_->num_rows());
  result.rows.assign(begin, end);
  for (const int64_t row : result.rows) result.label_weight += label_weights_[static_cast<size_t>(row)];
  if (result.label_weight == 0 && !std::exchange(warned_of_no_labels_, true)) {
    spdlog::warn(
        "step {}: no row of this update has a label that counts (task.ignore_index, task.class_weights): "
        "it adds nothing. Others may follow",
        step + 1);
  }
  return result;
}

}  // namespace finetune
