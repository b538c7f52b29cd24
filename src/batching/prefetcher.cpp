#include "prefetcher.h"

#include <algorithm>

#include "finetune/core/clock.h"
#include "finetune/device/device.h"

namespace finetune {
namespace {

constexpr int64_t kSlots = 8;

/// Workers collect rows much faster than a device trains on them, so a few are always enough.
constexpr int64_t kMostWorkers = 8;

/// A worker is added where more than this share of the time of so many batches was spent waiting for data.
constexpr double kToleratedWait = 0.02;
constexpr int64_t kStretch = 64;

void work(PrefetchRing& ring) {
  try {
    while (ring.wait_for_slot()) {
      const auto ticket = ring.claim();
      if (!ticket) continue;
      ring.fill(*ticket);
      ring.commit(*ticket);
    }
  } catch (...) {
    ring.fail(std::current_exception());
  }
}

}  // namespace

Prefetcher::Prefetcher(const DeviceDataset& dataset, c10::Device device, std::shared_ptr<EpochPlans> plans,
                       PrefetchRing::Position first, std::optional<int64_t> num_workers)
    : ring_(dataset, device, std::move(plans), first, kSlots),
      most_workers_(num_workers.value_or(std::clamp<int64_t>(available_threads() - 1, 1, kMostWorkers))),
      began_(monotonic_seconds()) {
  for (int64_t i = 0; i < num_workers.value_or(1); ++i) add_worker();
}

Prefetcher::~Prefetcher() {
  ring_.close();
  for (std::thread& worker : workers_) worker.join();
}

void Prefetcher::add_worker() {
  workers_.emplace_back([this] { work(ring_); });
}

Batch Prefetcher::take() {
  const double began = monotonic_seconds();
  const bool waits = !ring_.ready();
  Batch batch = ring_.take();
  if (waits) waited_ += monotonic_seconds() - began;
  if (++num_taken_ == kStretch) judge_waiting();
  return batch;
}

void Prefetcher::judge_waiting() {
  const double now = monotonic_seconds();
  const bool starved = waited_ > kToleratedWait * (now - began_);
  if (starved && static_cast<int64_t>(workers_.size()) < most_workers_) add_worker();
  num_taken_ = 0;
  began_ = now;
  waited_ = 0;
}

}  // namespace finetune
