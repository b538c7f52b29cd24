#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bpe_model.h"
#include "post_processor.h"
#include "token_tables.h"
#include "wordpiece_model.h"

namespace finetune {

enum class ModelKind { kWordPiece, kBpe, kUnigram };

/// Everything that decides the ids of a tokenizer built from components, whichever files it came from.
/// Components stand as they do in tokenizer.json; null: none.
struct PipelineSpec : TokenTables {
  std::string class_name = "PreTrainedTokenizerFast";  ///< of the reference; ids do not depend on it
  std::string place;                                   ///< the file, for messages
  nlohmann::json normalizer;
  nlohmann::json pre_tokenizer;
  nlohmann::json decoder;  ///< kept for saving only
  PostProcessor post_processor;

  ModelKind model = ModelKind::kBpe;
  Merges merges;                  ///< of kBpe
  BpeOptions bpe;                 ///< of kBpe
  std::vector<double> scores;     ///< of kUnigram: one an id
  std::optional<int32_t> unk_id;  ///< of kUnigram
  bool byte_fallback = false;     ///< of kUnigram
  WordPieceOptions wordpiece;     ///< of kWordPiece
};

}  // namespace finetune
