#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vocabulary.h"

namespace finetune {

/// Byte strings with values, as a double-array trie (Aoe 1989, with XOR as in Darts-clone): one addition-free
/// step and one comparison a byte.
class PieceTrie {
 public:
  PieceTrie() : PieceTrie(std::vector<std::pair<std::string_view, int32_t>>{}) {}
  /// Keys must be distinct; values must not be negative. An empty key is kept out.
  explicit PieceTrie(std::vector<std::pair<std::string_view, int32_t>> entries);
  /// The tokens of a vocabulary with their ids.
  explicit PieceTrie(const Vocabulary& vocabulary);

  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNowhere = UINT32_MAX;

  struct Match {
    int32_t value = -1;  ///< -1: no key is a prefix
    size_t length = 0;
  };

  /// The node that `prefix` leads to, or kNowhere.
  uint32_t node(std::string_view prefix) const;

  /// The longest key that begins `text`, where keys are taken from `node` on (the bytes that led there not
  /// counted).
  Match longest_prefix(std::string_view text, uint32_t node = kRoot) const {
    Match match;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = nodes_[node].base ^ static_cast<uint8_t>(text[i]);
      if (nodes_[next].parent != node) break;
      node = next;
      if (nodes_[node].value >= 0) match = {nodes_[node].value, i + 1};
    }
    return match;
  }

  /// Calls `found(value, length)` for each key that begins `text`, shorter ones first.
  template <typename Found>
  void for_each_prefix(std::string_view text, Found found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t next = nodes_[node].base ^ static_cast<uint8_t>(text[i]);
      if (nodes_[next].parent != node) return;
      node = next;
      if (nodes_[node].value >= 0) found(nodes_[node].value, i + 1);
    }
  }

 private:
  struct Node {
    uint32_t base = 0;
    uint32_t parent = kNowhere;
    int32_t value = -1;
  };
  struct Builder;

  std::vector<Node> nodes_;
};

}  // namespace finetune
