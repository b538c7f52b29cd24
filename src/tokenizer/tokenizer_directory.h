#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "finetune/core/json.h"

namespace finetune {

/// The files of a Hugging Face directory that say something about its tokenizer. What is absent is empty.
struct TokenizerDirectory {
  std::filesystem::path path;
  Json config = Json::object();              ///< config.json
  Json tokenizer_config = Json::object();    ///< tokenizer_config.json
  Json special_tokens_map = Json::object();  ///< special_tokens_map.json
  Json added_tokens = Json::object();        ///< added_tokens.json
  /// tokenizer.json. Not `Json`: keys that keep their order are found by a linear search, and the vocabulary
  /// is large.
  std::optional<nlohmann::json> tokenizer;

  std::filesystem::path file(const std::string& name) const { return path / name; }
  bool has(const std::string& name) const { return std::filesystem::is_regular_file(path / name); }
};

/// Reads the files. Throws `CheckpointError` where the directory is missing or a file is no JSON object.
TokenizerDirectory read_tokenizer_directory(const std::filesystem::path& path);

/// How `transformers`' AutoTokenizer would build the tokenizer.
enum class TokenizerBuild {
  kBert,          ///< BertTokenizer: the vocabulary, and settings of tokenizer_config.json
  kBertFromFile,  ///< a subclass that takes tokenizer.json as it is but for the row template
  kFromFile,      ///< tokenizer.json as it is; where there is none, tokenizer.model as it is
  kFamily,        ///< a class of pipeline_families.h
};

struct TokenizerChoice {
  TokenizerBuild build;
  std::string class_name;  ///< of the reference, without "Fast"
};

/// Follows AutoTokenizer's choice of a class from tokenizer_config.json, config.json and the files that are
/// there. Throws `CheckpointError` for a class that is not supported.
TokenizerChoice choose_tokenizer(const TokenizerDirectory& directory);

}  // namespace finetune
