#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "piece_cache.h"
#include "piece_trie.h"
#include "subword_model.h"
#include "vocabulary.h"

namespace finetune {

/// The most likely pieces (Kudo 2018), ties as in the `tokenizers` crate, which differ from SentencePiece's:
/// of equal scores the piece that begins first wins.
class UnigramModel : public SubwordModel {
 public:
  /// `scores` has one entry an id of `vocabulary`, which must outlive the model. `unk_id` must be one of
  /// them, or unset where characters without piece are an error.
  UnigramModel(const Vocabulary& vocabulary, const std::vector<double>& scores, std::optional<int32_t> unk_id,
               bool byte_fallback);

  void append(std::string_view word, std::vector<Piece>& pieces) const override;

 private:
  void compute(std::string_view word, std::vector<Piece>& pieces) const;
  void append_unknown(std::string_view text, uint32_t begin, std::vector<Piece>& pieces) const;

  const Vocabulary& vocabulary_;
  const std::vector<double>& scores_;
  PieceTrie trie_;
  std::optional<int32_t> unk_id_;
  double unk_score_;
  std::vector<int32_t> byte_ids_;  ///< of <0x00> ..., -1 where there is none; empty without byte_fallback
  mutable PieceCache cache_;
};

}  // namespace finetune
