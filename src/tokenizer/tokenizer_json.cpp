#include "tokenizer_json.h"

#include <stdexcept>
#include <string>

#include "json_access.h"
#include "post_processor_json.h"

namespace finetune {
namespace {

using nlohmann::json;

/// The "type" of a component; unwraps a Sequence of one.
const json& only_component(const json& component, const char* list_key, const std::string& place) {
  if (component.value("type", "") != "Sequence") return component;
  const json& parts = member(component, list_key, place);
  if (!parts.is_array() || parts.size() != 1) {
    fail_at(place, "a Sequence of " + std::to_string(parts.size()) + " components", "a single one");
  }
  return parts[0];
}

}  // namespace

AddedToken parse_added_token(const json& value, const std::string& place) {
  AddedToken token;
  token.special = true;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  if (!value.is_object()) fail_at(place, shown(value), "a token: a string, or an object with 'content'");
  token.content = get<std::string>(value, "content", place);
  token.special = get_or(value, "special", false, place);
  token.single_word = get_or(value, "single_word", false, place);
  token.lstrip = get_or(value, "lstrip", false, place);
  token.rstrip = get_or(value, "rstrip", false, place);
  token.normalized = get_or(value, "normalized", !token.special, place);
  return token;
}

BertNormalizerOptions parse_bert_normalizer(const json& component, const std::string& place) {
  BertNormalizerOptions options;
  options.clean_text = get_or(component, "clean_text", true, place);
  options.handle_chinese_chars = get_or(component, "handle_chinese_chars", true, place);
  options.lowercase = get_or(component, "lowercase", true, place);
  if (component.contains("strip_accents") && !component["strip_accents"].is_null()) {
    options.strip_accents = get<bool>(component, "strip_accents", place);
  }
  return options;
}

Vocabulary parse_vocabulary(const json& entries, const std::string& place) {
  Vocabulary vocabulary;
  try {
    if (entries.is_array()) return Vocabulary::from_lines(entries.get<std::vector<std::string>>());
    vocabulary.reserve(entries.size());
    for (const auto& [token, id] : entries.items()) vocabulary.add(token, id.get<int32_t>());
  } catch (const std::invalid_argument& error) {
    fail_at(place, error.what(), "one token for each id");
  } catch (const json::exception&) {
    fail_at(place, "a value that is no id", "an object of tokens and their ids");
  }
  if (vocabulary.num_tokens() == 0) fail_at(place, "no tokens", "an object of tokens and their ids");
  return vocabulary;
}

WordPieceOptions parse_wordpiece_options(const json& model, const std::string& place) {
  WordPieceOptions options;
  options.unk_token = get_or(model, "unk_token", options.unk_token, place);
  options.continuing_subword_prefix =
      get_or(model, "continuing_subword_prefix", options.continuing_subword_prefix, place);
  options.max_input_chars_per_word =
      get_or(model, "max_input_chars_per_word", options.max_input_chars_per_word, place);
  return options;
}

Vocabulary TokenizerJson::vocabulary() const {
  const std::string place = file_.string() + ": /model";
  const json& model = member(root_, "model", file_.string());
  const std::string type = get_or<std::string>(model, "type", "WordPiece", place);
  if (type != "WordPiece") {
    fail_at(place + "/type", "'" + type + "'", "'WordPiece', the only kind of model that is supported");
  }
  return parse_vocabulary(member(model, "vocab", place), place + "/vocab");
}

WordPieceOptions TokenizerJson::wordpiece_options() const {
  return parse_wordpiece_options(member(root_, "model", file_.string()), file_.string() + ": /model");
}

std::optional<BertNormalizerOptions> TokenizerJson::normalizer() const {
  const std::string place = file_.string() + ": /normalizer";
  if (!root_.contains("normalizer") || root_["normalizer"].is_null()) return std::nullopt;
  const json& component = only_component(root_["normalizer"], "normalizers", place);
  const auto type = get<std::string>(component, "type", place);
  if (type != "BertNormalizer") {
    fail_at(place, "'" + type + "'", "'BertNormalizer', the only normaliser that is supported");
  }
  return parse_bert_normalizer(component, place);
}

void TokenizerJson::check_pre_tokenizer() const {
  const std::string place = file_.string() + ": /pre_tokenizer";
  const char* expected = "'BertPreTokenizer', the only pre-tokenizer that is supported";
  if (!root_.contains("pre_tokenizer") || root_["pre_tokenizer"].is_null()) fail_at(place, "none", expected);
  const json& component = only_component(root_["pre_tokenizer"], "pretokenizers", place);
  const auto type = get<std::string>(component, "type", place);
  if (type != "BertPreTokenizer") fail_at(place, "'" + type + "'", expected);
}

RowTemplate TokenizerJson::rows() const {
  const std::string place = file_.string() + ": /post_processor";
  const auto found = root_.find("post_processor");
  if (found == root_.end() || found->is_null()) return {};
  const PostProcessor processor = parse_post_processor(*found, place);
  check_segments(processor.rows, place);
  return processor.rows;
}

std::vector<AddedToken> TokenizerJson::added_tokens() const {
  const std::string place = file_.string() + ": /added_tokens";
  std::vector<AddedToken> tokens;
  if (!root_.contains("added_tokens")) return tokens;
  for (const json& entry : root_["added_tokens"]) {
    tokens.push_back(parse_added_token(entry, place));
    tokens.back().id = get<int32_t>(entry, "id", place);
  }
  return tokens;
}

}  // namespace finetune
