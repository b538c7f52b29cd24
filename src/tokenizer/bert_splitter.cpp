#include "bert_splitter.h"

#include "unicode_tables.h"
#include "utf8.h"

namespace finetune {

bool BertSplitter::next(SplitWord& word) {
  word = {position_, position_, 0};
  while (position_ < text_.size()) {
    const DecodedCodePoint decoded = decode_utf8(text_, position_);
    const bool white = unicode::is_white_space(decoded.code_point);
    const bool punctuation = !white && unicode::is_punctuation(decoded.code_point);
    if ((white || punctuation) && word.num_characters > 0) return true;
    position_ += decoded.length;
    if (white) {
      word.begin = position_;
      continue;
    }
    word.end = position_;
    ++word.num_characters;
    if (punctuation) return true;
  }
  return word.num_characters > 0;
}

}  // namespace finetune
