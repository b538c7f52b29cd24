#include "tokenizer_json.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "finetune/core/error.h"

namespace finetune {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& place, const std::string& found, const std::string& expected) {
  throw CheckpointError(place + ": found " + found + ", expected " + expected);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr size_t kMost = 80;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

const json& member(const json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) fail(place, "no '" + std::string(key) + "'", "it to be there");
  return *found;
}

template <typename Value>
Value get(const json& object, const char* key, const std::string& place) {
  const json& value = member(object, key, place);
  try {
    return value.get<Value>();
  } catch (const json::exception&) {
    fail(place + "/" + key, shown(value), "a value of another type");
  }
}

template <typename Value>
Value get_or(const json& object, const char* key, Value fallback, const std::string& place) {
  return object.contains(key) ? get<Value>(object, key, place) : fallback;
}

/// The "type" of a component; unwraps a Sequence of one.
const json& only_component(const json& component, const char* list_key, const std::string& place) {
  if (component.value("type", "") != "Sequence") return component;
  const json& parts = member(component, list_key, place);
  if (!parts.is_array() || parts.size() != 1) {
    fail(place, "a Sequence of " + std::to_string(parts.size()) + " components", "a single one");
  }
  return parts[0];
}

/// The tokens of `special_tokens/NAME` of a template, each with the type of its place.
void append_template_tokens(const json& processor, const json& piece, const std::string& place,
                            std::vector<TemplateToken>& tokens) {
  const json& reference = piece["SpecialToken"];
  const auto name = get<std::string>(reference, "id", place);
  const auto type_id = get<int32_t>(reference, "type_id", place);
  const json& special = member(member(processor, "special_tokens", place), name.c_str(), place);
  const auto ids = get<std::vector<int32_t>>(special, "ids", place);
  const auto names = get<std::vector<std::string>>(special, "tokens", place);
  if (ids.size() != names.size()) fail(place, "a different number of ids and tokens", "as many");
  for (size_t i = 0; i < ids.size(); ++i) tokens.push_back({names[i], ids[i], type_id});
}

/// Reads one of the two templates: the special tokens before, between and behind the texts, and the texts'
/// types.
struct TemplateParts {
  std::vector<std::vector<TemplateToken>> specials = {{}};
  std::vector<std::string> texts;
  std::vector<int32_t> text_types;
};

TemplateParts parse_template(const json& processor, const char* key, const std::string& place) {
  TemplateParts parts;
  for (const json& piece : member(processor, key, place)) {
    if (piece.contains("SpecialToken")) {
      append_template_tokens(processor, piece, place + "/" + key, parts.specials.back());
    } else if (piece.contains("Sequence")) {
      parts.texts.push_back(get<std::string>(piece["Sequence"], "id", place));
      parts.text_types.push_back(get<int32_t>(piece["Sequence"], "type_id", place));
      parts.specials.emplace_back();
    } else {
      fail(place + "/" + key, shown(piece), "SpecialToken or Sequence");
    }
  }
  return parts;
}

bool all_of_type(const std::vector<TemplateToken>& tokens, int32_t type_id) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [&](const auto& token) { return token.type_id == type_id; });
}

void check_types(const RowTemplate& rows, const std::string& place) {
  const PairTemplate& pair = rows.pair;
  const bool single_is_zero =
      rows.single.type_id == 0 && all_of_type(rows.single.before, 0) && all_of_type(rows.single.after, 0);
  const bool between_rises =
      std::is_sorted(pair.between.begin(), pair.between.end(),
                     [](const auto& a, const auto& b) { return a.type_id < b.type_id; });
  const int32_t second = pair.second_type_id;
  const bool pair_rises = pair.first_type_id == 0 && all_of_type(pair.before, 0) &&
                          (second == 0 || second == 1) && all_of_type(pair.after, second) && between_rises &&
                          (pair.between.empty() || pair.between.back().type_id <= second);
  if (!single_is_zero || !pair_rises) {
    fail(place, "token types in another order", "0 throughout a single text, and 0 then 1 in a pair");
  }
}

RowTemplate parse_template_processing(const json& processor, const std::string& place) {
  TemplateParts single = parse_template(processor, "single", place);
  TemplateParts pair = parse_template(processor, "pair", place);
  if (single.texts != std::vector<std::string>{"A"} || pair.texts != std::vector<std::string>{"A", "B"}) {
    fail(place, "a template with its texts in another order", "A, and A before B");
  }
  RowTemplate rows;
  rows.single = {single.specials[0], single.specials[1], single.text_types[0]};
  rows.pair = {pair.specials[0], pair.specials[1], pair.specials[2], pair.text_types[0], pair.text_types[1]};
  check_types(rows, place);
  return rows;
}

RowTemplate parse_bert_processing(const json& processor, const std::string& place) {
  const auto sep = get<std::pair<std::string, int32_t>>(processor, "sep", place);
  const auto cls = get<std::pair<std::string, int32_t>>(processor, "cls", place);
  return bert_template(cls.first, cls.second, sep.first, sep.second);
}

}  // namespace

AddedToken parse_added_token(const json& value, const std::string& place) {
  AddedToken token;
  token.special = true;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  if (!value.is_object()) fail(place, shown(value), "a token: a string, or an object with 'content'");
  token.content = get<std::string>(value, "content", place);
  token.special = get_or(value, "special", false, place);
  token.single_word = get_or(value, "single_word", false, place);
  token.lstrip = get_or(value, "lstrip", false, place);
  token.rstrip = get_or(value, "rstrip", false, place);
  token.normalized = get_or(value, "normalized", !token.special, place);
  return token;
}

Vocabulary TokenizerJson::vocabulary() const {
  const std::string place = file_.string() + ": /model";
  const json& model = member(root_, "model", file_.string());
  const std::string type = get_or<std::string>(model, "type", "WordPiece", place);
  if (type != "WordPiece") {
    fail(place + "/type", "'" + type + "'", "'WordPiece', the only kind of model that is supported");
  }
  const json& entries = member(model, "vocab", place);
  Vocabulary vocabulary;
  try {
    if (entries.is_array()) return Vocabulary::from_lines(entries.get<std::vector<std::string>>());
    vocabulary.reserve(entries.size());
    for (const auto& [token, id] : entries.items()) vocabulary.add(token, id.get<int32_t>());
  } catch (const std::invalid_argument& error) {
    fail(place + "/vocab", error.what(), "one token for each id");
  } catch (const json::exception&) {
    fail(place + "/vocab", "a value that is no id", "an object of tokens and their ids");
  }
  if (vocabulary.num_tokens() == 0) fail(place + "/vocab", "no tokens", "an object of tokens and their ids");
  return vocabulary;
}

WordPieceOptions TokenizerJson::wordpiece_options() const {
  const std::string place = file_.string() + ": /model";
  const json& model = member(root_, "model", file_.string());
  WordPieceOptions options;
  options.unk_token = get_or(model, "unk_token", options.unk_token, place);
  options.continuing_subword_prefix =
      get_or(model, "continuing_subword_prefix", options.continuing_subword_prefix, place);
  options.max_input_chars_per_word =
      get_or(model, "max_input_chars_per_word", options.max_input_chars_per_word, place);
  return options;
}

std::optional<BertNormalizerOptions> TokenizerJson::normalizer() const {
  const std::string place = file_.string() + ": /normalizer";
  if (!root_.contains("normalizer") || root_["normalizer"].is_null()) return std::nullopt;
  const json& component = only_component(root_["normalizer"], "normalizers", place);
  const auto type = get<std::string>(component, "type", place);
  if (type != "BertNormalizer") {
    fail(place, "'" + type + "'", "'BertNormalizer', the only normaliser that is supported");
  }
  BertNormalizerOptions options;
  options.clean_text = get_or(component, "clean_text", true, place);
  options.handle_chinese_chars = get_or(component, "handle_chinese_chars", true, place);
  options.lowercase = get_or(component, "lowercase", true, place);
  if (component.contains("strip_accents") && !component["strip_accents"].is_null()) {
    options.strip_accents = get<bool>(component, "strip_accents", place);
  }
  return options;
}

void TokenizerJson::check_pre_tokenizer() const {
  const std::string place = file_.string() + ": /pre_tokenizer";
  const char* expected = "'BertPreTokenizer', the only pre-tokenizer that is supported";
  if (!root_.contains("pre_tokenizer") || root_["pre_tokenizer"].is_null()) fail(place, "none", expected);
  const json& component = only_component(root_["pre_tokenizer"], "pretokenizers", place);
  const auto type = get<std::string>(component, "type", place);
  if (type != "BertPreTokenizer") fail(place, "'" + type + "'", expected);
}

RowTemplate TokenizerJson::rows() const {
  const std::string place = file_.string() + ": /post_processor";
  if (!root_.contains("post_processor") || root_["post_processor"].is_null()) return {};
  const json& component = only_component(root_["post_processor"], "processors", place);
  const auto type = get<std::string>(component, "type", place);
  if (type == "TemplateProcessing") return parse_template_processing(component, place);
  if (type == "BertProcessing") return parse_bert_processing(component, place);
  fail(place, "'" + type + "'", "'TemplateProcessing' or 'BertProcessing', the ones that are supported");
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
