#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "piece_cache.h"
#include "subword_model.h"
#include "vocabulary.h"

namespace finetune {

struct BpeOptions {
  std::optional<std::string> unk_token = {};  ///< unset: characters without piece vanish
  std::string continuing_subword_prefix = {};
  std::string end_of_word_suffix = {};
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< a word that is a piece is left whole
  bool operator==(const BpeOptions&) const = default;
};

using Merges = std::vector<std::pair<std::string, std::string>>;

/// Byte-pair encoding (Sennrich et al. 2016): the pair of the lowest rank is joined first, of equal ones the
/// leftmost, as in the `tokenizers` crate.
class BpeModel : public SubwordModel {
 public:
  /// `vocabulary` must outlive the model. Throws `std::invalid_argument` where a merge's pieces are not in
  /// it.
  BpeModel(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options);

  void append(std::string_view word, std::vector<Piece>& pieces) const override;

 private:
  struct Merge {
    uint32_t rank;
    int32_t new_id;
  };
  /// Pairs of ids and their merges, by open addressing: the look-up that joining words consists of.
  class MergeTable {
   public:
    void reserve(size_t count);
    void add(int32_t first, int32_t second, Merge merge);
    const Merge* find(int32_t first, int32_t second) const;

   private:
    struct Slot {
      uint64_t key = kEmpty;
      Merge merge = {};
    };
    static constexpr uint64_t kEmpty = UINT64_MAX;
    size_t place(uint64_t key) const;

    std::vector<Slot> slots_;
  };
  struct Symbol;
  class Joiner;

  void compute(std::string_view word, std::vector<Piece>& pieces) const;
  bool add_bytes(std::string_view text, uint32_t at, std::vector<Symbol>& symbols) const;
  std::optional<int32_t> piece_of(std::string_view character, bool first, bool last, std::string& text) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  std::optional<int32_t> unk_id_;
  std::vector<int32_t> byte_ids_;  ///< of <0x00> ..., -1 where there is none; empty without byte_fallback
  MergeTable merges_;
  mutable PieceCache cache_;
};

}  // namespace finetune
