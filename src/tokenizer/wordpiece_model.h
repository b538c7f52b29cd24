#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "piece_trie.h"
#include "vocabulary.h"

namespace finetune {

/// A piece of a word.
struct Piece {
  int32_t id;
  uint32_t begin;  ///< bytes of the word
  uint32_t end;
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;
  bool operator==(const WordPieceOptions&) const = default;
};

/// Greedy longest match from the left (Wu et al. 2016; as in BERT). A word that cannot be covered is one
/// unknown piece.
class WordPieceModel {
 public:
  /// The unknown token must be in the vocabulary.
  WordPieceModel(const Vocabulary& vocabulary, const WordPieceOptions& options);

  int64_t max_characters() const { return max_characters_; }

  /// Appends the ids of a word that is not empty and has `num_characters` code points.
  void append(std::string_view word, int64_t num_characters, std::vector<int32_t>& ids) const {
    const size_t mark = ids.size();
    const bool covered = walk(word, num_characters, [&](int32_t id, size_t, size_t) { ids.push_back(id); });
    if (covered) return;
    ids.resize(mark);
    ids.push_back(unknown_id_);
  }

  /// The same pieces with their places in the word, into `pieces`.
  void split(std::string_view word, int64_t num_characters, std::vector<Piece>& pieces) const {
    pieces.clear();
    const bool covered = walk(word, num_characters, [&](int32_t id, size_t begin, size_t end) {
      pieces.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    });
    if (!covered) pieces.assign(1, {unknown_id_, 0, static_cast<uint32_t>(word.size())});
  }

 private:
  template <typename Emit>
  bool walk(std::string_view word, int64_t num_characters, Emit emit) const {
    if (num_characters > max_characters_) return false;
    uint32_t start = PieceTrie::kRoot;
    for (size_t begin = 0; begin < word.size();) {
      if (start == PieceTrie::kNowhere) return false;
      const PieceTrie::Match match = trie_.longest_prefix(word.substr(begin), start);
      if (match.value < 0) return false;
      emit(match.value, begin, begin + match.length);
      begin += match.length;
      start = continuation_;
    }
    return true;
  }

  PieceTrie trie_;
  uint32_t continuation_;  ///< the node behind the prefix of continuing pieces
  int32_t unknown_id_;
  int64_t max_characters_;
};

}  // namespace finetune
