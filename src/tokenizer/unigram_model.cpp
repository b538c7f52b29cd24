#include "unigram_model.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "byte_pieces.h"
#include "finetune/core/error.h"
#include "utf8.h"

namespace finetune {
namespace {

constexpr double kUnknownPenalty = 10.0;

/// The best way to a byte of the word: its score, and the piece it ends with.
struct BestPath {
  double score = 0;
  int32_t id = -1;
  int64_t begin = -1;  ///< of that piece; -1: no way leads here

  void offer(double candidate, int32_t candidate_id, size_t candidate_begin) {
    if (begin >= 0 && !(candidate > score)) return;
    score = candidate;
    id = candidate_id;
    begin = static_cast<int64_t>(candidate_begin);
  }
};

}  // namespace

UnigramModel::UnigramModel(const Vocabulary& vocabulary, const std::vector<double>& scores,
                           std::optional<int32_t> unk_id, bool byte_fallback)
    : vocabulary_(vocabulary), scores_(scores), trie_(vocabulary), unk_id_(unk_id) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : scores) lowest = std::min(lowest, score);
  unk_score_ = lowest - kUnknownPenalty;
  if (byte_fallback) byte_ids_ = byte_piece_ids(vocabulary);
}

void UnigramModel::append(std::string_view word, std::vector<Piece>& pieces) const {
  cache_.append(word, pieces, [&](std::string_view text, std::vector<Piece>& out) { compute(text, out); });
}

void UnigramModel::compute(std::string_view word, std::vector<Piece>& pieces) const {
  std::vector<BestPath> best(word.size() + 1);
  for (size_t begin = 0; begin < word.size();) {
    const double score = best[begin].score;
    const size_t length = decode_utf8(word, begin).length;
    bool has_single = false;
    trie_.for_each_prefix(word.substr(begin), [&](int32_t id, size_t size) {
      best[begin + size].offer(scores_[static_cast<size_t>(id)] + score, id, begin);
      has_single |= size == length;
    });
    if (!has_single) {
      if (!unk_id_) {
        throw DataError("the tokenizer has no piece for '" + std::string(word.substr(begin, length)) +
                        "' and names no unknown token; set unk_id in tokenizer.json");
      }
      best[begin + length].offer(unk_score_ + score, *unk_id_, begin);
    }
    begin += length;
  }
  const auto mark = static_cast<std::ptrdiff_t>(pieces.size());
  for (size_t end = word.size(); end > 0;) {
    const int32_t id = best[end].id;
    size_t begin = end;
    do {  // unknown characters side by side are one piece
      begin = static_cast<size_t>(best[begin].begin);
    } while (unk_id_ && id == *unk_id_ && begin > 0 && best[begin].id == id);
    pieces.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    end = begin;
  }
  std::reverse(pieces.begin() + mark, pieces.end());
  if (!unk_id_) return;
  const std::vector<Piece> found(pieces.begin() + mark, pieces.end());
  if (std::none_of(found.begin(), found.end(), [&](const Piece& piece) { return piece.id == *unk_id_; }))
    return;
  pieces.resize(static_cast<size_t>(mark));
  for (const Piece& piece : found) {
    if (piece.id == *unk_id_) {
      append_unknown(word.substr(piece.begin, piece.end - piece.begin), piece.begin, pieces);
    } else {
      pieces.push_back(piece);
    }
  }
}

void UnigramModel::append_unknown(std::string_view text, uint32_t begin, std::vector<Piece>& pieces) const {
  const auto end = begin + static_cast<uint32_t>(text.size());
  if (const auto id = vocabulary_.id(text)) {
    pieces.push_back({*id, begin, end});
    return;
  }
  if (!has_byte_pieces(byte_ids_, text)) {
    pieces.push_back({*unk_id_, begin, end});
    return;
  }
  for (const char byte : text) pieces.push_back({byte_ids_[static_cast<uint8_t>(byte)], begin, end});
}

}  // namespace finetune
