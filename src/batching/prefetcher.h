#pragma once

#include <thread>
#include <vector>

#include "prefetch_ring.h"

namespace finetune {

/// A PrefetchRing and the threads that fill it.
class Prefetcher {
 public:
  /// num_workers: unset begins with one thread and adds another whenever a stretch of batches shows that
  /// `take` waited for data.
  Prefetcher(const DeviceDataset& dataset, c10::Device device, std::shared_ptr<EpochPlans> plans,
             PrefetchRing::Position first, std::optional<int64_t> num_workers);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch (see PrefetchRing::take).
  Batch take();
  PrefetchRing::Position next() const { return ring_.next(); }

 private:
  void add_worker();
  void judge_waiting();

  PrefetchRing ring_;
  int64_t most_workers_;
  std::vector<std::thread> workers_;
  // Of the stretch of batches in progress.
  int64_t num_taken_ = 0;
  double began_;
  double waited_ = 0;
};

}  // namespace finetune
