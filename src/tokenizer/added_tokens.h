#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "piece_trie.h"

namespace finetune {

/// A token that is found in the text itself, before the model sees it.
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  ///< only where no letter, digit or mark stands beside it
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space behind it
  bool normalized = false;   ///< looked for in the normalised text, itself normalised
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

/// Bytes [begin, end) of a text: an added token (the index in the list it came from), or text between (-1).
struct TextSegment {
  size_t begin;
  size_t end;
  int32_t token_index;
};

/// Finds added tokens in text: leftmost, then longest, as the reference does.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// `patterns[i]` is what to look for to find `tokens[i]`; an empty pattern is never found. Of equal
  /// patterns the first counts. `tokens` is copied.
  AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns);

  bool empty() const { return tokens_.empty(); }
  const AddedToken& token(int32_t index) const { return tokens_[static_cast<size_t>(index)]; }

  /// The segments of a text, in order, through `next`. State lives in the caller's `Cursor`.
  struct Cursor {
    std::string_view text;
    size_t search = 0;    ///< where the next search begins
    size_t consumed = 0;  ///< end of the last segment handed out
    TextSegment pending = {0, 0, -1};
    bool has_pending = false;
  };
  /// False at the end. An empty text has no segment.
  bool next(Cursor& cursor, TextSegment& segment) const;

 private:
  /// The first byte at or after `position` with which a pattern may begin.
  size_t find_start(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;
  PieceTrie trie_;
  bool starts_[256] = {};
  int single_start_ = -1;  ///< the only byte in `starts_`, if there is one
};

}  // namespace finetune
