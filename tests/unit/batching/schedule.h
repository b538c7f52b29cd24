#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "batching/prefetch_ring.h"

namespace finetune::testing {

/// Takes `num_batches` from a ring that one to four workers fill. A generator decides in which order all of
/// them get on, and how fast each is: the same seed gives the same order. No threads.
inline void run_schedule(PrefetchRing& ring, int64_t num_batches, unsigned seed,
                         const std::function<void(const Batch&)>& use) {
  struct Worker {
    std::optional<PrefetchRing::Ticket> ticket;
    bool filled = false;
  };
  std::mt19937 random(seed);
  std::vector<Worker> workers(1 + random() % 4);
  std::vector<double> speeds;
  for (size_t i = 0; i <= workers.size(); ++i) speeds.push_back(1 << random() % 6);
  std::discrete_distribution<size_t> choose(speeds.begin(), speeds.end());
  while (num_batches > 0) {
    const size_t who = choose(random);
    if (who == workers.size()) {
      if (!ring.ready()) continue;
      use(ring.take());
      --num_batches;
      continue;
    }
    Worker& worker = workers[who];
    if (!worker.ticket) {
      worker = {ring.claim(), false};
    } else if (!worker.filled) {
      ring.fill(*worker.ticket);
      worker.filled = true;
    } else {
      ring.commit(*worker.ticket);
      worker.ticket.reset();
    }
  }
}

}  // namespace finetune::testing
