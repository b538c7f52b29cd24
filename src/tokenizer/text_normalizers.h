#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "aligned_text.h"

namespace finetune {

/// One component of a normaliser, as the `tokenizers` crate defines it.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  virtual void normalize(AlignedText& text) const = 0;
};

/// Reads the normaliser of a tokenizer.json; a Sequence is one, too. Throws `CheckpointError` naming `place`
/// and the component where it is not supported.
std::unique_ptr<TextNormalizer> make_normalizer(const nlohmann::json& component, const std::string& place);

/// The pattern of a Replace or Split component: {"String": text} or {"Regex": expression}.
class TextPattern;
TextPattern parse_pattern(const nlohmann::json& component, const std::string& place);

}  // namespace finetune
