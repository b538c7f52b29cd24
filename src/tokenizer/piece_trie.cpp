#include "piece_trie.h"

#include <algorithm>

namespace finetune {
namespace {

std::vector<std::pair<std::string_view, int32_t>> entries_of(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(static_cast<size_t>(vocabulary.num_tokens()));
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    if (vocabulary.contains(id) && !vocabulary.token(id).empty())
      entries.emplace_back(vocabulary.token(id), id);
  }
  return entries;
}

}  // namespace

/// Places the children of one node after another. Free slots are chained, so that the search for a base looks
/// at free slots only.
struct PieceTrie::Builder {
  using Entries = std::vector<std::pair<std::string_view, int32_t>>;
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
    uint32_t node;
  };
  static constexpr uint32_t kBlock = 256;
  static constexpr size_t kMaxTries = 128;  ///< free slots looked at before a new block is opened

  std::vector<Node>& nodes;
  std::vector<uint32_t> next_free, previous_free;
  uint32_t first_free = kNowhere, last_free = kNowhere;

  explicit Builder(std::vector<Node>& target) : nodes(target) {
    add_block();
    take(kRoot);
  }

  void add_block() {
    const auto begin = static_cast<uint32_t>(nodes.size());
    nodes.resize(begin + kBlock);
    next_free.resize(nodes.size(), kNowhere);
    previous_free.resize(nodes.size(), kNowhere);
    for (uint32_t slot = begin; slot < begin + kBlock; ++slot) {
      previous_free[slot] = last_free;
      (last_free == kNowhere ? first_free : next_free[last_free]) = slot;
      last_free = slot;
    }
  }

  void take(uint32_t slot) {
    const uint32_t before = previous_free[slot], after = next_free[slot];
    (before == kNowhere ? first_free : next_free[before]) = after;
    (after == kNowhere ? last_free : previous_free[after]) = before;
    previous_free[slot] = next_free[slot] = slot;  // marks it as taken
  }

  bool is_free(uint32_t slot) const { return next_free[slot] != slot; }

  bool fits(uint32_t base, const std::vector<uint8_t>& bytes) const {
    return std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return is_free(base ^ byte); });
  }

  /// New blocks are searched first: old ones are nearly full.
  uint32_t find_base(const std::vector<uint8_t>& bytes) {
    size_t tries = 0;
    for (uint32_t slot = last_free; slot != kNowhere && tries < kMaxTries;
         slot = previous_free[slot], ++tries) {
      const uint32_t base = slot ^ bytes.front();
      if (fits(base, bytes)) return base;
    }
    const auto begin = static_cast<uint32_t>(nodes.size());
    add_block();
    return begin ^ bytes.front();
  }

  void build(const Entries& entries) {
    std::vector<Range> pending = {{0, entries.size(), 0, kRoot}};
    std::vector<uint8_t> bytes;
    std::vector<size_t> starts;
    while (!pending.empty()) {
      Range range = pending.back();
      pending.pop_back();
      if (range.begin < range.end && entries[range.begin].first.size() == range.depth) {
        if (range.depth > 0) nodes[range.node].value = entries[range.begin].second;
        ++range.begin;
      }
      if (range.begin == range.end) continue;
      bytes.clear();
      starts.clear();
      for (size_t i = range.begin; i < range.end; ++i) {
        const auto byte = static_cast<uint8_t>(entries[i].first[range.depth]);
        if (bytes.empty() || bytes.back() != byte) {
          bytes.push_back(byte);
          starts.push_back(i);
        }
      }
      starts.push_back(range.end);
      const uint32_t base = find_base(bytes);
      nodes[range.node].base = base;
      for (size_t child = 0; child < bytes.size(); ++child) {
        const uint32_t slot = base ^ bytes[child];
        take(slot);
        nodes[slot].parent = range.node;
        pending.push_back({starts[child], starts[child + 1], range.depth + 1, slot});
      }
    }
  }
};

PieceTrie::PieceTrie(const Vocabulary& vocabulary) : PieceTrie(entries_of(vocabulary)) {}

PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::sort(entries.begin(), entries.end());
  Builder(nodes_).build(entries);
}

uint32_t PieceTrie::node(std::string_view prefix) const {
  uint32_t current = kRoot;
  for (const char byte : prefix) {
    const uint32_t next = nodes_[current].base ^ static_cast<uint8_t>(byte);
    if (nodes_[next].parent != current) return kNowhere;
    current = next;
  }
  return current;
}

}  // namespace finetune
