#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace finetune {

/// The bytes of a word of at most 16, the rest zero, as two little-endian numbers.
struct ShortWord {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const ShortWord&) const = default;
};

/// The ids of short words seen before: text has few distinct words, and most of them are short. A fixed
/// number of slots, each word has one; the newest word of a slot stays. For one thread.
class WordCache {
 public:
  static constexpr size_t kMaxIds = 3;

  struct Entry {
    ShortWord word;
    std::array<int32_t, kMaxIds> ids;
    uint32_t num_ids = 0;  ///< 0: nothing here
  };

  /// The word's slot, which may hold another one.
  Entry& slot(const ShortWord& word) { return slots_[hash(word) >> (64 - kLogSlots)]; }

  static void fill(Entry& entry, const ShortWord& word, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    entry.word = word;
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
    entry.num_ids = static_cast<uint32_t>(ids.size());
  }

 private:
  static constexpr int kLogSlots = 13;  ///< 256 KiB: stays in the second-level cache

  static uint64_t hash(const ShortWord& word) {
    const uint64_t mixed = (word.low * 0x9E3779B97F4A7C15u) ^ (word.high * 0xC2B2AE3D27D4EB4Fu);
    return (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
  }

  std::vector<Entry> slots_ = std::vector<Entry>(size_t{1} << kLogSlots);
};

}  // namespace finetune
