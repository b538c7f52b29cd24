#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "finetune/batching/batcher.h"

namespace finetune {

/// The order of an epoch's rows, cut into updates and those into micro-batches.
struct EpochPlan {
  std::vector<int64_t> order;
  std::vector<BatchPlan> micro_batches;
  std::vector<int64_t> first_micro_batch;  ///< [steps + 1] index of each step's first one
};

/// Plans of epochs, each made when first asked for. The last three are kept: one in use, one prefetched from,
/// one made ahead. May be used by several threads.
class EpochPlans {
 public:
  EpochPlans(const std::vector<int32_t>& lengths, const Batcher::Options& options, int64_t steps_per_epoch);

  std::shared_ptr<const EpochPlan> at(int64_t epoch);
  /// The most rows a micro-batch may have.
  int64_t most_rows() const;

 private:
  EpochPlan make(int64_t epoch) const;

  const std::vector<int32_t>& lengths_;
  Batcher::Options options_;
  int64_t steps_per_epoch_;
  std::mutex mutex_;
  std::vector<std::pair<int64_t, std::shared_ptr<const EpochPlan>>> made_;
};

}  // namespace finetune
