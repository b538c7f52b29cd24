#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "aligned_text.h"

namespace finetune {

/// A text cut into words: bytes [begin, end) of it, in order, none empty.
struct SplitText {
  struct Word {
    size_t begin;
    size_t end;
  };
  AlignedText text;
  std::vector<Word> words;

  void add_word(size_t begin, size_t end) {
    if (begin < end) words.push_back({begin, end});
  }
};

/// One component of a pre-tokeniser, as the `tokenizers` crate defines it.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Cuts the words further; may rewrite the text.
  virtual void split(SplitText& text) const = 0;
  /// Where its work depends on the place in the original, the text must be tracked.
  virtual bool needs_origins() const { return false; }
};

/// Reads the pre-tokeniser of a tokenizer.json; a Sequence is one, too. Throws `CheckpointError` naming
/// `place` and the component where it is not supported. With `before_words`, components that may put a blank
/// (or its mark) before a text do so, whatever their settings: the words of a list are read so.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& component, const std::string& place,
                                                 bool before_words = false);

}  // namespace finetune
