#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.h"
#include "finetune/tokenizer/tokenizer.h"
#include "pipeline_spec.h"
#include "pre_tokenizers.h"
#include "row_assembly.h"
#include "subword_model.h"
#include "text_normalizers.h"

namespace finetune {

/// A tokenizer of components: added tokens, normaliser, pre-tokeniser, model, template; the reference's
/// `TokenizerImpl`. Carries byte-level BPE, SentencePiece's models and every tokenizer.json of those
/// families.
class PipelineTokenizer : public Tokenizer {
 public:
  /// Throws `CheckpointError` naming a component that is not supported, or what in the model does not fit.
  explicit PipelineTokenizer(PipelineSpec spec);

  RowShape append(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options,
                  std::vector<int32_t>& ids) const override;
  Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                  const EncodeOptions& options) const override;
  Encoding encode_plain(std::string_view text) const override;
  Encoding frame(const Encoding& tokens, const EncodeOptions& options) const override;
  Encoding encode_word(std::string_view word) const override;

  int64_t vocab_size() const override;
  std::string id_to_token(int32_t id) const override;
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  int32_t pad_id() const override { return pad_id_; }
  int64_t num_special_tokens(bool pair) const override;
  std::string fingerprint() const override { return fingerprint_; }
  void save(const std::filesystem::path& directory) const override;

  const PipelineSpec& spec() const { return spec_; }

 private:
  /// What is asked of a text.
  struct Request {
    const PreTokenizer* pre_tokenizer;
    bool offsets;   ///< else ids alone
    int64_t limit;  ///< nothing is read once so many tokens are there
  };

  AddedTokenMatcher make_matcher(bool normalized) const;
  Request request(bool offsets, int64_t limit) const;
  TextTokens read(std::string_view text, const Request& request) const;
  bool read_segment(AlignedText text, const Request& request, TextTokens& tokens) const;
  bool read_words(SplitText& words, const Request& request, TextTokens& tokens) const;
  bool add_token(const AddedToken& token, ByteSpan span, const Request& request, TextTokens& tokens) const;
  void trim_offsets(std::string_view text, std::string_view pair, Encoding& encoding) const;
  ByteSpan trimmed(ByteSpan span, int32_t id, bool first, std::string_view text) const;

  PipelineSpec spec_;
  std::unique_ptr<TextNormalizer> normalizer_;        ///< null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer_;       ///< null: none
  std::unique_ptr<PreTokenizer> word_pre_tokenizer_;  ///< for the words of a list; null: none
  std::unique_ptr<SubwordModel> model_;
  AddedTokenMatcher raw_matcher_;         ///< tokens looked for in the text as it is
  AddedTokenMatcher normalized_matcher_;  ///< tokens looked for in normalised text
  int32_t pad_id_ = 0;
  std::string fingerprint_;
};

}  // namespace finetune
