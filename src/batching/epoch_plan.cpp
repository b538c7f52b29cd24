#include "epoch_plan.h"

#include <algorithm>

namespace finetune {
namespace {

constexpr size_t kKept = 3;

}  // namespace

EpochPlans::EpochPlans(const std::vector<int32_t>& lengths, const Batcher::Options& options,
                       int64_t steps_per_epoch)
    : lengths_(lengths), options_(options), steps_per_epoch_(steps_per_epoch) {}

std::shared_ptr<const EpochPlan> EpochPlans::at(int64_t epoch) {
  const std::lock_guard lock(mutex_);
  for (const auto& [made_epoch, plan] : made_) {
    if (made_epoch == epoch) return plan;
  }
  if (made_.size() == kKept) made_.erase(made_.begin());
  made_.emplace_back(epoch, std::make_shared<const EpochPlan>(make(epoch)));
  return made_.back().second;
}

int64_t EpochPlans::most_rows() const {
  const int64_t rows = options_.micro_batch_rows > 0 ? options_.micro_batch_rows : options_.batch_size;
  return std::min({rows, options_.batch_size, static_cast<int64_t>(lengths_.size())});
}

EpochPlan EpochPlans::make(int64_t epoch) const {
  EpochPlan plan;
  const auto num_rows = static_cast<int64_t>(lengths_.size());
  plan.order = epoch_order(num_rows, options_.seed, epoch, options_.shuffle);
  for (int64_t step = 0; step < steps_per_epoch_; ++step) {
    plan.first_micro_batch.push_back(static_cast<int64_t>(plan.micro_batches.size()));
    const int64_t begin = step * options_.batch_size;
    const int64_t end = std::min(begin + options_.batch_size, num_rows);
    const auto micro = plan_batches(lengths_, plan.order, begin, end, options_.micro_batch_rows,
                                    options_.micro_batch_tokens);
    plan.micro_batches.insert(plan.micro_batches.end(), micro.begin(), micro.end());
  }
  plan.first_micro_batch.push_back(static_cast<int64_t>(plan.micro_batches.size()));
  return plan;
}

}  // namespace finetune
