#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "added_tokens.h"
#include "bert_normalizer.h"
#include "post_processor.h"
#include "vocabulary.h"
#include "wordpiece_model.h"

namespace finetune {

/// Reads the parts of a tokenizer.json. Every method throws `CheckpointError` naming the file, the JSON
/// pointer, what was found and what is supported.
class TokenizerJson {
 public:
  /// Both must outlive the reader.
  TokenizerJson(const nlohmann::json& root, const std::filesystem::path& file) : root_(root), file_(file) {}

  /// model/vocab of a WordPiece model: an object, or a list in id order.
  Vocabulary vocabulary() const;
  WordPieceOptions wordpiece_options() const;
  /// Empty where there is no normaliser.
  std::optional<BertNormalizerOptions> normalizer() const;
  /// Checks that the text is split as BERT does.
  void check_pre_tokenizer() const;
  /// Texts as they are where there is no post-processor.
  RowTemplate rows() const;
  /// added_tokens, in the file's order, with the ids the file gives.
  std::vector<AddedToken> added_tokens() const;

 private:
  const nlohmann::json& root_;
  const std::filesystem::path& file_;
};

/// An added token written as an object or as a string (which is special, as in the reference). `place` is for
/// messages.
AddedToken parse_added_token(const nlohmann::json& value, const std::string& place);

/// A vocabulary: an object of tokens and ids, or a list in id order.
Vocabulary parse_vocabulary(const nlohmann::json& entries, const std::string& place);

/// What a WordPiece model says beside its vocabulary.
WordPieceOptions parse_wordpiece_options(const nlohmann::json& model, const std::string& place);

/// The settings of a BertNormalizer component.
BertNormalizerOptions parse_bert_normalizer(const nlohmann::json& component, const std::string& place);

}  // namespace finetune
