#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aligned_text.h"

namespace finetune {

/// SentencePiece's `precompiled_charsmap`: a double-array trie (Darts-clone) of what is replaced, and the
/// texts that replace it. Applied as the reference does, which differs from SentencePiece: a grapheme cluster
/// of fewer than six bytes is replaced as a whole by what its shortest known prefix becomes; longer ones go
/// character by character.
class Charsmap {
 public:
  /// Takes the bytes as they stand in a model file. Throws `std::invalid_argument` where they are damaged.
  explicit Charsmap(std::string_view bytes);

  void normalize(AlignedText& text) const;

 private:
  /// What the shortest prefix of `chunk` that the trie knows becomes.
  std::optional<std::string_view> replacement(std::string_view chunk) const;
  bool leaves_alone(std::string_view ascii) const;

  std::vector<uint32_t> trie_;
  std::string texts_;        ///< each ends at a NUL
  bool replaced_[128] = {};  ///< ASCII characters that do not stay as they are
};

}  // namespace finetune
