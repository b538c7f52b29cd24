#include "tokenizer_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>

#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "tokenizer_json.h"

namespace finetune {
namespace {

constexpr std::array<const char*, 7> kNamedTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

// Keys that decide ids or are carried along; then keys that other tools read or write beside them.
const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> kKeys = {"do_lower_case",
                                                 "strip_accents",
                                                 "tokenize_chinese_chars",
                                                 "added_tokens_decoder",
                                                 "additional_special_tokens",
                                                 "extra_special_tokens",
                                                 "model_specific_special_tokens",
                                                 "split_special_tokens",
                                                 "truncation_side",
                                                 "tokenizer_class",
                                                 "model_max_length",
                                                 "max_len",
                                                 "padding_side",
                                                 "model_input_names",
                                                 "clean_up_tokenization_spaces",
                                                 "pad_token_type_id",
                                                 "chat_template",
                                                 "processor_class",
                                                 "max_length",
                                                 "pad_to_multiple_of",
                                                 "stride",
                                                 "truncation_strategy",
                                                 "truncation",
                                                 "padding",
                                                 "do_basic_tokenize",
                                                 "never_split",
                                                 "name_or_path",
                                                 "special_tokens_map_file",
                                                 "tokenizer_file",
                                                 "vocab_file",
                                                 "init_inputs",
                                                 "auto_map",
                                                 "backend",
                                                 "is_local",
                                                 "local_files_only",
                                                 "use_fast",
                                                 "tokenizer_type",
                                                 "full_tokenizer_file",
                                                 "fast_tokenizer_files",
                                                 "wordpieces_prefix",
                                                 "clean_text",
                                                 "add_prefix_space",
                                                 "add_bos_token",
                                                 "add_eos_token",
                                                 "add_special_tokens",
                                                 "legacy",
                                                 "files_loaded",
                                                 "verbose",
                                                 "tokenizer_version",
                                                 "do_word_tokenize",
                                                 "do_subword_tokenize",
                                                 "trust_remote_code",
                                                 "response_template",
                                                 "chat_control_tokens",
                                                 "errors",
                                                 "transformers_version",
                                                 "return_token_type_ids",
                                                 "return_attention_mask",
                                                 "use_auth_token",
                                                 "remove_space",
                                                 "keep_accents",
                                                 "trim_offsets",
                                                 "split_by_punct",
                                                 "extra_ids",
                                                 "unk_id",
                                                 "sp_model_kwargs",
                                                 "vocab_type"};
  return kKeys;
}

// Settings of how a row is padded or shown, which ids do not depend on, the cutting side, and the switches of
// the classes that build their components anew (WordPiece writes its own itself).
const std::vector<const char*>& kept_keys() {
  static const std::vector<const char*> kKeys = {"model_max_length",
                                                 "padding_side",
                                                 "truncation_side",
                                                 "model_input_names",
                                                 "clean_up_tokenization_spaces",
                                                 "split_special_tokens",
                                                 "chat_template",
                                                 "add_prefix_space",
                                                 "trim_offsets",
                                                 "keep_accents",
                                                 "remove_space",
                                                 "split_by_punct",
                                                 "extra_ids"};
  return kKeys;
}

bool is_known(const std::string& key) {
  return key.ends_with("_token") ||
         std::find(known_keys().begin(), known_keys().end(), key) != known_keys().end();
}

nlohmann::json plain(const Json& value) { return nlohmann::json::parse(value.dump()); }

}  // namespace

TokenizerSettings::TokenizerSettings(const TokenizerDirectory& directory)
    : directory_(directory), values_(directory.tokenizer_config) {
  for (const auto& [key, value] : directory.tokenizer_config.items()) {
    if (is_known(key)) continue;
    const auto nearest = nearest_name(key, known_keys());
    spdlog::warn("{}: unknown key {}, which has no effect{}",
                 directory.file("tokenizer_config.json").string(), key,
                 nearest ? "; did you mean " + *nearest + "?" : "");
  }
  if (values_.contains("added_tokens_decoder")) return;
  for (const auto& [key, value] : directory.special_tokens_map.items()) {
    values_[key] = value;
    if (value.is_object() && value.contains("content")) values_[key]["special"] = true;
  }
}

std::string TokenizerSettings::place(const std::string& key) const {
  const bool from_map =
      !directory_.tokenizer_config.contains(key) && directory_.special_tokens_map.contains(key);
  return directory_.file(from_map ? "special_tokens_map.json" : "tokenizer_config.json").string() + ": /" +
         key;
}

std::optional<bool> TokenizerSettings::flag(const char* key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->is_null()) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>();
  throw CheckpointError(place(key) + ": found " + found->dump() + ", expected true, false or null");
}

std::optional<std::string> TokenizerSettings::word(const char* key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  throw CheckpointError(place(key) + ": found " + found->dump() + ", expected a string");
}

std::optional<int64_t> TokenizerSettings::number(const char* key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->is_null()) return std::nullopt;
  if (found->is_number_integer()) return found->get<int64_t>();
  throw CheckpointError(place(key) + ": found " + found->dump() + ", expected a whole number");
}

bool TokenizerSettings::is_object(const char* key) const {
  const auto found = values_.find(key);
  return found != values_.end() && found->is_object();
}

bool TokenizerSettings::truncates_left() const {
  const std::string side = word("truncation_side").value_or("right");
  if (side != "left" && side != "right") {
    throw CheckpointError(place("truncation_side") + ": found '" + side + "', expected 'left' or 'right'");
  }
  return side == "left";
}

bool TokenizerSettings::lists_extra_tokens() const {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto found = values_.find(key);
    if (found != values_.end() && found->is_array()) return true;
  }
  return false;
}

std::vector<std::pair<std::string, AddedToken>> TokenizerSettings::named_tokens(
    const std::vector<std::pair<std::string, std::string>>& defaults) const {
  std::vector<std::pair<std::string, AddedToken>> tokens;
  for (const char* key : kNamedTokens) {
    if (const auto found = values_.find(key); found != values_.end()) {
      if (!found->is_null()) tokens.emplace_back(key, parse_added_token(plain(*found), place(key)));
      continue;
    }
    const auto fallback =
        std::find_if(defaults.begin(), defaults.end(), [&](const auto& d) { return d.first == key; });
    if (fallback == defaults.end()) continue;
    AddedToken token;
    token.content = fallback->second;
    token.special = true;
    tokens.emplace_back(key, token);
  }
  const auto add_specific = [&](const std::string& key, const Json& value) {
    const bool standard = std::find(kNamedTokens.begin(), kNamedTokens.end(), key) != kNamedTokens.end();
    if (!standard) tokens.emplace_back(key, parse_added_token(plain(value), place(key)));
  };
  for (const auto& [key, value] : values_.items()) {
    if (key.ends_with("_token") && (value.is_string() || value.is_object())) add_specific(key, value);
  }
  for (const char* list : {"model_specific_special_tokens", "extra_special_tokens"}) {
    const auto found = values_.find(list);
    if (found == values_.end() || !found->is_object()) continue;
    for (const auto& [key, value] : found->items()) {
      if (!values_.contains(key)) add_specific(key, value);
    }
  }
  return tokens;
}

std::vector<AddedToken> TokenizerSettings::extra_tokens() const {
  std::vector<AddedToken> tokens;
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto found = values_.find(key);
    if (found == values_.end() || !found->is_array() || found->empty()) continue;
    for (const Json& entry : *found) tokens.push_back(parse_added_token(plain(entry), place(key)));
    break;
  }
  return tokens;
}

std::vector<AddedToken> TokenizerSettings::added_tokens(
    const std::vector<AddedToken>& from_tokenizer_json) const {
  std::map<int32_t, AddedToken> by_id;
  if (const auto found = values_.find("added_tokens_decoder"); found != values_.end()) {
    for (const auto& [key, value] : found->items()) {
      int32_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size()) {
        throw CheckpointError(place("added_tokens_decoder") + ": found the key '" + key +
                              "', expected a token id");
      }
      by_id[id] = parse_added_token(plain(value), place("added_tokens_decoder"));
    }
  } else {
    std::vector<std::string> special;
    for (const auto& [key, token] : named_tokens({})) special.push_back(token.content);
    for (const AddedToken& token : extra_tokens()) special.push_back(token.content);
    for (const auto& [content, value] : directory_.added_tokens.items()) {
      if (!value.is_number_integer()) {
        throw CheckpointError(directory_.file("added_tokens.json").string() + ": /" + content + ": found " +
                              value.dump() + ", expected a token id");
      }
      AddedToken token;
      token.content = content;
      token.special = std::find(special.begin(), special.end(), content) != special.end();
      token.normalized = !token.special;
      by_id[value.get<int32_t>()] = token;
    }
    for (const AddedToken& token : from_tokenizer_json) by_id[token.id] = token;
  }
  std::vector<AddedToken> tokens;
  for (auto& [id, token] : by_id) tokens.push_back(std::move(token));
  return tokens;
}

Json TokenizerSettings::kept() const {
  Json kept = Json::object();
  for (const char* key : kept_keys()) {
    if (directory_.tokenizer_config.contains(key)) kept[key] = directory_.tokenizer_config[key];
  }
  return kept;
}

}  // namespace finetune
