#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace finetune {

/// A word: bytes [begin, end) of the text that was split.
struct SplitWord {
  size_t begin;
  size_t end;
  int64_t num_characters;
};

/// Splits normalised text at white space, which goes, and around punctuation, which stays
/// (`BertPreTokenizer`).
class BertSplitter {
 public:
  /// Of bytes [begin, end) of `text`.
  BertSplitter(std::string_view text, size_t begin, size_t end)
      : text_(text.substr(0, end)), position_(begin) {}

  /// False at the end.
  bool next(SplitWord& word);

 private:
  std::string_view text_;
  size_t position_;
};

}  // namespace finetune
