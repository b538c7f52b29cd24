#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wordpiece_model.h"

namespace finetune {

/// The pieces of words met before. Texts repeat their words, so most look-ups find one. Shared by threads;
/// full caches stay as they are.
class PieceCache {
 public:
  /// Appends the pieces of `word`, which `compute(word, pieces)` appends where the cache does not know them.
  template <typename Compute>
  void append(std::string_view word, std::vector<Piece>& pieces, Compute compute) {
    if (word.size() > kLongestWord) {
      compute(word, pieces);
      return;
    }
    Shard& shard = shards_[std::hash<std::string_view>{}(word) % kNumShards];
    {
      const std::lock_guard lock(shard.mutex);
      if (const auto found = shard.words.find(word); found != shard.words.end()) {
        pieces.insert(pieces.end(), found->second.begin(), found->second.end());
        return;
      }
    }
    const auto mark = static_cast<std::ptrdiff_t>(pieces.size());
    compute(word, pieces);
    const std::lock_guard lock(shard.mutex);
    if (shard.words.size() >= kWordsPerShard) return;
    shard.words.try_emplace(std::string(word), pieces.begin() + mark, pieces.end());
  }

 private:
  static constexpr size_t kNumShards = 64;
  static constexpr size_t kWordsPerShard = 1024;
  static constexpr size_t kLongestWord = 255;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<Piece>, Hash, std::equal_to<>> words;
  };

  std::array<Shard, kNumShards> shards_;
};

}  // namespace finetune
