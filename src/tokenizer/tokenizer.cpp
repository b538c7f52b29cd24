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

}  // namespace finetune
