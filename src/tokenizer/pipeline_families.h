#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline_spec.h"
#include "sentencepiece_file.h"
#include "tokenizer_settings.h"

namespace finetune {

enum class FamilyKind {
  kRoberta,
  kGpt2,
  kDeberta,
  kXlmRoberta,
  kCamembert,
  kAlbert,
  kT5,
  kXlnet,
  kDebertaV2,
  kMpnet
};

/// A tokenizer class of `transformers` that builds its components itself and takes no more than vocabulary,
/// character map and tokens from the files.
struct TokenizerFamily {
  FamilyKind kind;
  std::string_view class_name;
  ModelKind model;
  std::string_view sentencepiece_file;  ///< empty: vocab.json and merges.txt, or vocab.txt
  std::vector<std::pair<std::string, std::string>> named_tokens;  ///< where the files name none
  std::vector<std::string> extra_tokens;                          ///< where the files list none
  bool mask_takes_blank = false;  ///< a mask token given as text takes the white space before it
};

/// The family of a class name (without "Fast"), or null.
const TokenizerFamily* find_family(std::string_view class_name);

/// The class that a model type of config.json has, or an empty string.
std::string_view family_class_of_model_type(std::string_view model_type);

/// The vocabulary of a SentencePiece model, with the family's own tokens at its own places.
void set_pieces(const TokenizerFamily& family, const SentencePieceFile& file,
                const TokenizerSettings& settings, PipelineSpec& spec);

/// The id of the unknown token in a vocabulary that came from tokenizer.json (or, `fallback`, from the
/// model).
std::optional<int32_t> family_unk_id(const TokenizerFamily& family, const PipelineSpec& spec,
                                     int64_t fallback);

/// Normaliser, pre-tokeniser, decoder and the model's options. `charsmap` may be empty.
void set_components(const TokenizerFamily& family, const TokenizerSettings& settings,
                    std::string_view charsmap, PipelineSpec& spec);

/// The row template; the spec's tokens must be there. `from_file` is that of tokenizer.json, if there is one.
PostProcessor family_post_processor(const TokenizerFamily& family, const TokenizerSettings& settings,
                                    const PipelineSpec& spec, const std::optional<PostProcessor>& from_file);

}  // namespace finetune
