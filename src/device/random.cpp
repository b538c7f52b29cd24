#include "finetune/device/random.h"

#include <cmath>
#include <numbers>

namespace finetune {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> counter{
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

uint32_t CounterRandom::next() {
  if (used_ == buffer_.size()) {
    buffer_ = philox(seed_, counter_++, stream_);
    used_ = 0;
  }
  return buffer_[used_++];
}

uint32_t CounterRandom::below(uint32_t bound) {
  uint64_t product = static_cast<uint64_t>(next()) * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t threshold = -bound % bound;
    while (static_cast<uint32_t>(product) < threshold) product = static_cast<uint64_t>(next()) * bound;
  }
  return static_cast<uint32_t>(product >> 32);
}

double CounterRandom::normal() {
  const double u = (static_cast<double>(next()) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(next()) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace finetune
