#pragma once

#include <filesystem>
#include <string>

#include "pipeline_spec.h"

namespace finetune {

/// The text of tokenizer.json. Says everything that decides ids but for the two switches of truncation and
/// special tokens.
std::string pipeline_tokenizer_json(const PipelineSpec& spec);

/// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json, from which `transformers`'
/// AutoTokenizer and `load_tokenizer` make the same ids. Creates the directory.
void save_pipeline_files(const PipelineSpec& spec, const std::filesystem::path& directory);

}  // namespace finetune
