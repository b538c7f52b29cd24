#include "bpe_model.h"

#include <queue>
#include <stdexcept>

#include "byte_pieces.h"
#include "utf8.h"

namespace finetune {

void BpeModel::MergeTable::reserve(size_t count) {
  size_t size = 16;
  while (size < 2 * count) size *= 2;
  slots_.assign(size, {});
}

size_t BpeModel::MergeTable::place(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

namespace {

uint64_t pair_key(int32_t first, int32_t second) {
  return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32 | static_cast<uint32_t>(second);
}

}  // namespace

void BpeModel::MergeTable::add(int32_t first, int32_t second, Merge merge) {
  const uint64_t key = pair_key(first, second);
  slots_[place(key)] = {key, merge};
}

const BpeModel::Merge* BpeModel::MergeTable::find(int32_t first, int32_t second) const {
  const uint64_t key = pair_key(first, second);
  const Slot& slot = slots_[place(key)];
  return slot.key == key ? &slot.merge : nullptr;
}

/// A piece in the making; symbols form a doubly linked list, -1 at its ends.
struct BpeModel::Symbol {
  int32_t id;
  uint32_t begin;
  uint32_t end;  ///< equal to `begin` once it was joined to the one before
  int32_t previous;
  int32_t next;
};

/// Joins the symbols of one word.
class BpeModel::Joiner {
 public:
  Joiner(const MergeTable& merges, std::vector<Symbol>& symbols) : merges_(merges), symbols_(symbols) {}

  void run() {
    const auto count = static_cast<int32_t>(symbols_.size());
    for (int32_t i = 0; i < count; ++i) {
      at(i).previous = i - 1;
      at(i).next = i + 1 < count ? i + 1 : -1;
    }
    for (int32_t i = 0; i < count; ++i) offer(i);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = at(best.position);
      if (left.begin == left.end || left.next < 0) continue;
      const Symbol& right = at(left.next);
      const Merge* merge = merges_.find(left.id, right.id);
      if (merge == nullptr || merge->new_id != best.new_id) continue;  // one of the two has changed since
      join(best.position, best.new_id);
    }
  }

 private:
  struct Candidate {
    uint32_t rank;
    int32_t position;
    int32_t new_id;
    bool operator<(const Candidate& other) const {  // the queue hands out the largest
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  Symbol& at(int32_t position) { return symbols_[static_cast<size_t>(position)]; }

  void offer(int32_t position) {
    if (position < 0 || at(position).next < 0) return;
    const Merge* merge = merges_.find(at(position).id, at(at(position).next).id);
    if (merge != nullptr) queue_.push({merge->rank, position, merge->new_id});
  }

  void join(int32_t position, int32_t new_id) {
    Symbol& left = at(position);
    Symbol& right = at(left.next);
    left.id = new_id;
    left.end = right.end;
    right.end = right.begin;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = position;
    offer(left.previous);
    offer(position);
  }

  const MergeTable& merges_;
  std::vector<Symbol>& symbols_;
  std::priority_queue<Candidate> queue_;
};

BpeModel::BpeModel(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  if (options_.unk_token) {
    unk_id_ = vocabulary_.id(*options_.unk_token);
    if (!unk_id_) throw std::invalid_argument("the unknown token '" + *options_.unk_token + "'");
  }
  if (options_.byte_fallback) byte_ids_ = byte_piece_ids(vocabulary_);
  const auto id_of = [&](const std::string& piece) {
    const auto id = vocabulary_.id(piece);
    if (!id) throw std::invalid_argument("'" + piece + "' of a merge");
    return *id;
  };
  const size_t prefix = options_.continuing_subword_prefix.size();
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (const auto& [first, second] : merges) {
    if (second.size() < prefix) throw std::invalid_argument("'" + second + "' of a merge");
    const int32_t first_id = id_of(first), second_id = id_of(second);
    merges_.add(first_id, second_id, {rank++, id_of(first + second.substr(prefix))});
  }
}

void BpeModel::append(std::string_view word, std::vector<Piece>& pieces) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_.id(word)) {
      pieces.push_back({*id, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  cache_.append(word, pieces, [&](std::string_view text, std::vector<Piece>& out) { compute(text, out); });
}

std::optional<int32_t> BpeModel::piece_of(std::string_view character, bool first, bool last,
                                          std::string& text) const {
  text.clear();
  if (!first) text += options_.continuing_subword_prefix;
  text += character;
  if (last) text += options_.end_of_word_suffix;
  return vocabulary_.id(text);
}

bool BpeModel::add_bytes(std::string_view text, uint32_t at, std::vector<Symbol>& symbols) const {
  if (!has_byte_pieces(byte_ids_, text)) return false;
  for (const char byte : text) {
    symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)], at, at + 1, -1, -1});
    ++at;
  }
  return true;
}

void BpeModel::compute(std::string_view word, std::vector<Piece>& pieces) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  std::string text;
  bool after_unknown = false;  // the last symbol is an unknown one that the next may be fused with
  // Places count the symbols' bytes: what has no symbol has no place either, as in the reference.
  uint32_t place = 0;
  for (size_t begin = 0; begin < word.size();) {
    const uint32_t length = decode_utf8(word, begin).length;
    const size_t end = begin + length;
    const auto id = piece_of(word.substr(begin, length), begin == 0, end == word.size(), text);
    begin = end;
    if (!id && add_bytes(text, place, symbols)) {
      place += static_cast<uint32_t>(text.size());
      continue;
    }
    if (!id && !unk_id_) continue;
    if (!id && after_unknown && options_.fuse_unk) {
      symbols.back().end += length;
    } else {
      symbols.push_back({id.value_or(unk_id_.value_or(-1)), place, place + length, -1, -1});
    }
    after_unknown = !id;
    place += length;
  }
  Joiner(merges_, symbols).run();
  for (const Symbol& symbol : symbols) {
    if (symbol.begin < symbol.end) pieces.push_back({symbol.id, symbol.begin, symbol.end});
  }
}

}  // namespace finetune
