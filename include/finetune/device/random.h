#pragma once

#include <array>
#include <cstdint>

namespace finetune {

/// Philox4x32 with 10 rounds (Salmon et al. 2011): a function from (key, counter) to 128 random bits, without
/// state. Row order and initial weights draw from it, so they depend on nothing but the seed and their own
/// number.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

/// A stream of draws numbered from 0, for one purpose (`stream` tells purposes apart).
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  uint32_t next();
  /// Uniform in [0, bound), unbiased (Lemire 2019).
  uint32_t below(uint32_t bound);
  /// Standard normal (Box-Muller).
  double normal();

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> buffer_{};
  unsigned used_ = 4;
};

}  // namespace finetune
