#include <algorithm>
#include <string_view>
#include <utility>

#include "added_token_list.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "tokenizer_json.h"
#include "tokenizer_settings.h"
#include "utf8.h"
#include "wordpiece_files.h"

namespace finetune {
namespace {

const std::vector<std::pair<std::string, std::string>> kBertTokens = {{"unk_token", "[UNK]"},
                                                                      {"sep_token", "[SEP]"},
                                                                      {"pad_token", "[PAD]"},
                                                                      {"cls_token", "[CLS]"},
                                                                      {"mask_token", "[MASK]"}};

/// A token that stands for something, such as [unused1] or <S>.
bool is_bracketed(const std::string& piece) {
  if (piece.size() < 3) return false;
  return (piece.front() == '[' && piece.back() == ']') || (piece.front() == '<' && piece.back() == '>');
}

/// Pieces that lower-casing keeps from ever matching, longer ones first named.
std::vector<std::string> cased_pieces(const WordPieceSpec& spec) {
  BertNormalizerOptions lower_only{false, false, false, true};
  std::vector<std::string> words, letters;
  for (int32_t id = 0; id < spec.vocabulary.end_id(); ++id) {
    const std::string& piece = spec.vocabulary.token(id);
    if (!spec.vocabulary.contains(id) || is_bracketed(piece)) continue;
    const bool added = std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                                   [&](const AddedToken& token) { return token.id == id; });
    if (added || normalize_bert(piece, 0, lower_only).text == piece) continue;
    const size_t begin = piece.starts_with("##") ? 2 : 0;
    const bool letter = begin + decode_utf8(piece, begin).length == piece.size();
    (letter ? letters : words).push_back(piece);
  }
  return words.empty() ? letters : words;
}

void warn_of_cased_pieces(const WordPieceSpec& spec, const TokenizerDirectory& directory) {
  const std::vector<std::string> pieces = cased_pieces(spec);
  if (pieces.empty()) return;
  constexpr size_t kMostNamed = 3;
  spdlog::warn(
      "{}: vocabulary holds cased pieces ({}) but lower case is the default; if the model is cased, set "
      "\"do_lower_case\": false in tokenizer_config.json",
      directory.path.string(), join_some(pieces, kMostNamed));
}

const char* shown(bool value) { return value ? "true" : "false"; }

/// Says which of two files decides a switch on which they differ.
void warn_of_conflict(const TokenizerDirectory& directory, const char* what, const char* json_key,
                      bool in_json, const char* config_key, bool in_force, bool explicitly) {
  if (in_json == in_force) return;
  if (explicitly) {
    spdlog::warn(
        "{}: tokenizer.json and tokenizer_config.json disagree about {}: {} is {} in tokenizer.json, {} is "
        "{} in "
        "tokenizer_config.json, which wins",
        directory.path.string(), what, json_key, shown(in_json), config_key, shown(in_force));
  } else {
    spdlog::warn(
        "{}: tokenizer.json has {} {}, but the tokenizer class takes {} from tokenizer_config.json, which "
        "does not "
        "set it: the default, {}, is used, as in transformers; set it there to choose",
        directory.path.string(), json_key, shown(in_json), config_key, shown(in_force));
  }
}

void warn_of_conflicts(const WordPieceSpec& spec, const TokenizerDirectory& directory,
                       const TokenizerJson& json, const TokenizerSettings& settings) {
  const auto in_json = json.normalizer().value_or(BertNormalizerOptions{false, false, false, false});
  const auto& in_force = spec.normalizer;
  warn_of_conflict(directory, "lower case", "lowercase", in_json.lowercase, "do_lower_case",
                   in_force.lowercase, settings.flag("do_lower_case").has_value());
  if (in_json.strip_accents) {
    warn_of_conflict(directory, "accents", "strip_accents", in_json.strips_accents(), "strip_accents",
                     in_force.strips_accents(), settings.flag("strip_accents").has_value());
  }
  warn_of_conflict(directory, "Chinese characters", "handle_chinese_chars", in_json.handle_chinese_chars,
                   "tokenize_chinese_chars", in_force.handle_chinese_chars,
                   settings.flag("tokenize_chinese_chars").has_value());
  if (!in_json.clean_text) {
    spdlog::warn("{}: clean_text is false in tokenizer.json; the tokenizer class cleans text nevertheless",
                 directory.path.string());
  }
  WordPieceOptions model_in_json = json.wordpiece_options();
  model_in_json.unk_token = spec.model.unk_token;
  if (model_in_json != spec.model || json.rows() != spec.rows) {
    spdlog::warn(
        "{}: tokenizer.json has a row template, word limit or piece prefix of its own, which the tokenizer "
        "class "
        "replaces by BERT's, as in transformers; set tokenizer_class to PreTrainedTokenizerFast in "
        "tokenizer_config.json to keep them",
        directory.path.string());
  }
}

using NamedTokens = std::vector<std::pair<std::string, AddedToken>>;

void set_bert_template(WordPieceSpec& spec) {
  const std::string cls = spec.named_token("cls_token"), sep = spec.named_token("sep_token");
  spec.rows = bert_template(cls, spec.token_id(cls).value_or(2), sep, spec.token_id(sep).value_or(3));
}

void check_unknown_token(const WordPieceSpec& spec, const TokenizerDirectory& directory) {
  if (spec.vocabulary.id(spec.model.unk_token)) return;
  throw CheckpointError(directory.path.string() + ": the unknown token '" + spec.model.unk_token +
                        "' is not in the vocabulary; add it, or set unk_token in tokenizer_config.json");
}

void warn_of_new_ids(const WordPieceSpec& spec, const TokenizerDirectory& directory) {
  for (const auto& [key, content] : spec.named_tokens) {
    const auto id = spec.token_id(content);
    if (!id || spec.vocabulary.id(content) == id || directory.tokenizer) continue;
    spdlog::warn("{}: {} '{}' is not in vocab.txt and gets the new id {}", directory.path.string(), key,
                 content, *id);
  }
}

void read_switches(WordPieceSpec& spec, const TokenizerSettings& settings) {
  spec.truncate_left = settings.truncates_left();
  spec.split_special_tokens = settings.flag("split_special_tokens").value_or(false);
  spec.other_settings = settings.kept();
}

/// BertTokenizer: the vocabulary of the files; everything else from the settings.
void build_bert(WordPieceSpec& spec, const TokenizerDirectory& directory, const TokenizerSettings& settings,
                const TokenizerJson* json) {
  spec.vocabulary = json != nullptr ? json->vocabulary() : read_vocabulary_lines(directory.file("vocab.txt"));
  if (json != nullptr) json->check_pre_tokenizer();
  spec.normalizer.lowercase = settings.flag("do_lower_case").value_or(true);
  spec.normalizer.strip_accents = settings.flag("strip_accents");
  spec.normalizer.handle_chinese_chars = settings.flag("tokenize_chinese_chars").value_or(true);
}

void build_from_file(WordPieceSpec& spec, const TokenizerDirectory& directory,
                     const TokenizerSettings& settings, const TokenizerJson& json) {
  spec.vocabulary = json.vocabulary();
  spec.model = json.wordpiece_options();
  spec.normalizer = json.normalizer().value_or(BertNormalizerOptions{false, false, false, false});
  json.check_pre_tokenizer();
  spec.rows = json.rows();
  const auto lower = settings.flag("do_lower_case");
  if (lower && *lower != spec.normalizer.lowercase) {
    spdlog::warn(
        "{}: tokenizer.json and tokenizer_config.json disagree about lower case: the tokenizer class takes "
        "tokenizer.json as it is, with lowercase {}, as in transformers",
        directory.path.string(), shown(spec.normalizer.lowercase));
  }
}

}  // namespace

Vocabulary read_vocabulary_lines(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    throw CheckpointError(file.string() + ": byte " + std::to_string(bad) +
                          " is not UTF-8, expected one token a line in UTF-8; copy the file anew");
  }
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  if (lines.empty()) throw CheckpointError(file.string() + ": the file is empty, expected one token a line");
  return Vocabulary::from_lines(std::move(lines));
}

WordPieceSpec load_wordpiece_spec(const TokenizerDirectory& directory, const TokenizerChoice& choice) {
  WordPieceSpec spec;
  const TokenizerSettings settings(directory);
  const std::filesystem::path json_file = directory.file("tokenizer.json");
  std::optional<TokenizerJson> json;
  if (directory.tokenizer) json.emplace(*directory.tokenizer, json_file);
  const bool as_bert = choice.build == TokenizerBuild::kBert;
  const bool as_it_is = choice.build == TokenizerBuild::kFromFile;

  const NamedTokens named = settings.named_tokens(as_it_is ? decltype(kBertTokens){} : kBertTokens);
  for (const auto& [key, token] : named) spec.named_tokens.emplace_back(key, token.content);
  if (as_bert) {
    spec.class_name = choice.class_name;
    build_bert(spec, directory, settings, json ? &*json : nullptr);
    const std::string unknown = spec.named_token("unk_token");
    if (!unknown.empty()) spec.model.unk_token = unknown;
  } else {
    build_from_file(spec, directory, settings, *json);
  }
  check_unknown_token(spec, directory);

  AddedTokenList added(spec.vocabulary);
  const std::vector<AddedToken> from_json = json ? json->added_tokens() : std::vector<AddedToken>{};
  if (!as_bert) added.add(from_json);
  added.add(tokens_to_add(settings.added_tokens(from_json), named, settings.extra_tokens(), added));
  spec.added_tokens = added.tokens();
  if (!as_it_is) set_bert_template(spec);
  read_switches(spec, settings);

  if (as_bert && json) warn_of_conflicts(spec, directory, *json, settings);
  warn_of_new_ids(spec, directory);
  const bool json_lowers = json && json->normalizer() && json->normalizer()->lowercase;
  if (as_bert && spec.normalizer.lowercase && !settings.flag("do_lower_case") && !json_lowers) {
    warn_of_cased_pieces(spec, directory);
  }
  return spec;
}

}  // namespace finetune
