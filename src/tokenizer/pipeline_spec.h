#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "added_tokens.h"
#include "bpe_model.h"
#include "finetune/core/json.h"
#include "post_processor.h"
#include "vocabulary.h"
#include "wordpiece_model.h"

namespace finetune {

enum class ModelKind { kWordPiece, kBpe, kUnigram };

/// Everything that decides the ids of a tokenizer built from components, whichever files it came from.
/// Components stand as they do in tokenizer.json; null: none.
struct PipelineSpec {
  std::string class_name = "PreTrainedTokenizerFast";  ///< of the reference; ids do not depend on it
  std::string place;                                   ///< the file, for messages
  nlohmann::json normalizer;
  nlohmann::json pre_tokenizer;
  nlohmann::json decoder;  ///< kept for saving only
  PostProcessor post_processor;

  ModelKind model = ModelKind::kBpe;
  Vocabulary vocabulary;
  Merges merges;                  ///< of kBpe
  BpeOptions bpe;                 ///< of kBpe
  std::vector<double> scores;     ///< of kUnigram: one an id
  std::optional<int32_t> unk_id;  ///< of kUnigram
  bool byte_fallback = false;     ///< of kUnigram
  WordPieceOptions wordpiece;     ///< of kWordPiece

  std::vector<AddedToken> added_tokens;  ///< distinct contents
  bool truncate_left = false;            ///< a row that is too long loses its beginning
  bool split_special_tokens = false;     ///< special tokens in the text are text
  std::vector<std::pair<std::string, std::string>> named_tokens;  ///< "cls_token" -> "<s>", ...
  Json other_settings = Json::object();  ///< of tokenizer_config.json, kept when saving

  std::optional<int32_t> token_id(std::string_view token) const;
  /// The token named `key`, or an empty string.
  std::string named_token(std::string_view key) const;
};

}  // namespace finetune
