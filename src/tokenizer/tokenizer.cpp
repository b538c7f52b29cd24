#include "finetune/tokenizer/tokenizer.h"

namespace finetune {
namespace {

/// For tokenizers that gain nothing from state.
class PlainEncoder : public RowEncoder {
 public:
  explicit PlainEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  RowShape append(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options,
                  std::vector<int32_t>& ids) override {
    return tokenizer_.append(text, pair, options, ids);
  }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<RowEncoder> Tokenizer::row_encoder() const { return std::make_unique<PlainEncoder>(*this); }

Encoding Tokenizer::encode_words(const std::vector<std::string>& words, const EncodeOptions& options) const {
  Encoding all;
  for (size_t index = 0; index < words.size(); ++index) {
    const Encoding word = encode_word(words[index]);
    all.input_ids.insert(all.input_ids.end(), word.input_ids.begin(), word.input_ids.end());
    all.offsets.insert(all.offsets.end(), word.offsets.begin(), word.offsets.end());
    all.word_ids.insert(all.word_ids.end(), word.input_ids.size(), static_cast<int32_t>(index));
  }
  return frame(all, options);
}

}  // namespace finetune
