#include "wordpiece_files.h"

#include <algorithm>

#include "finetune/core/file.h"

namespace finetune {
namespace {

Json added_token_json(const AddedToken& token) {
  return {{"content", token.content}, {"single_word", token.single_word}, {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},   {"normalized", token.normalized},   {"special", token.special}};
}

std::vector<AddedToken> by_id(std::vector<AddedToken> tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

Json optional_flag(const std::optional<bool>& flag) { return flag ? Json(*flag) : Json(nullptr); }

void append_specials(const std::vector<TemplateToken>& tokens, Json& pieces, Json& special_tokens) {
  for (const TemplateToken& token : tokens) {
    pieces.push_back({{"SpecialToken", {{"id", token.token}, {"type_id", token.type_id}}}});
    special_tokens[token.token] = {
        {"id", token.token}, {"ids", Json::array({token.id})}, {"tokens", Json::array({token.token})}};
  }
}

Json text_piece(const char* name, int32_t type_id) {
  return {{"Sequence", {{"id", name}, {"type_id", type_id}}}};
}

Json post_processor_json(const RowTemplate& rows) {
  Json single = Json::array(), pair = Json::array(), special_tokens = Json::object();
  append_specials(rows.single.before, single, special_tokens);
  single.push_back(text_piece("A", rows.single.type_id));
  append_specials(rows.single.after, single, special_tokens);
  append_specials(rows.pair.before, pair, special_tokens);
  pair.push_back(text_piece("A", rows.pair.first_type_id));
  append_specials(rows.pair.between, pair, special_tokens);
  pair.push_back(text_piece("B", rows.pair.second_type_id));
  append_specials(rows.pair.after, pair, special_tokens);
  return {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special_tokens}};
}

/// A JSON object in the order of ids, written by hand: the objects of the JSON library would sort 30,000
/// keys, or search them one after another.
std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    if (!vocabulary.contains(id)) continue;
    if (text.size() > 1) text += ',';
    text += "\n      " + Json(vocabulary.token(id)).dump() + ": " + std::to_string(id);
  }
  return text + "\n    }";
}

/// Whether BertTokenizer, which knows fewer settings than tokenizer.json, makes the same tokenizer.
bool is_plain_bert(const WordPieceSpec& spec) {
  WordPieceOptions model;
  model.unk_token = spec.model.unk_token;
  BertNormalizerOptions normalizer = spec.normalizer;
  normalizer.clean_text = true;
  const std::string cls = spec.named_token("cls_token"), sep = spec.named_token("sep_token");
  return spec.model == model && spec.normalizer == normalizer &&
         spec.named_token("unk_token") == model.unk_token && spec.token_id(cls) && spec.token_id(sep) &&
         spec.rows == bert_template(cls, *spec.token_id(cls), sep, *spec.token_id(sep));
}

std::string tokenizer_config_json(const WordPieceSpec& spec) {
  Json config = Json::object();
  config["tokenizer_class"] = is_plain_bert(spec) ? spec.class_name : "PreTrainedTokenizerFast";
  config["do_lower_case"] = spec.normalizer.lowercase;
  config["strip_accents"] = optional_flag(spec.normalizer.strip_accents);
  config["tokenize_chinese_chars"] = spec.normalizer.handle_chinese_chars;
  for (const auto& [key, token] : spec.named_tokens) config[key] = token;
  Json decoder = Json::object();
  for (const AddedToken& token : by_id(spec.added_tokens))
    decoder[std::to_string(token.id)] = added_token_json(token);
  config["added_tokens_decoder"] = decoder;
  for (const auto& [key, value] : spec.other_settings.items()) config[key] = value;
  return config.dump(2) + "\n";
}

std::string special_tokens_map_json(const WordPieceSpec& spec) {
  Json map = Json::object();
  for (const auto& [key, token] : spec.named_tokens) map[key] = token;
  return map.dump(2) + "\n";
}

/// Line numbers are ids, so an id without token needs a line too: a placeholder that text cannot match.
std::string vocabulary_text(const Vocabulary& vocabulary) {
  std::string text;
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    text += vocabulary.contains(id) ? vocabulary.token(id) : "[no token " + std::to_string(id) + "]";
    text += '\n';
  }
  return text;
}

}  // namespace

std::string wordpiece_tokenizer_json(const WordPieceSpec& spec) {
  Json added_tokens = Json::array();
  for (const AddedToken& token : by_id(spec.added_tokens)) {
    Json entry = {{"id", token.id}};
    entry.update(added_token_json(token));
    added_tokens.push_back(entry);
  }
  const Json root = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", spec.normalizer.clean_text},
        {"handle_chinese_chars", spec.normalizer.handle_chinese_chars},
        {"strip_accents", optional_flag(spec.normalizer.strip_accents)},
        {"lowercase", spec.normalizer.lowercase}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", post_processor_json(spec.rows)},
      {"decoder",
       {{"type", "WordPiece"}, {"prefix", spec.model.continuing_subword_prefix}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", spec.model.unk_token},
        {"continuing_subword_prefix", spec.model.continuing_subword_prefix},
        {"max_input_chars_per_word", spec.model.max_input_chars_per_word}}}};
  std::string text = root.dump(2);
  // Ends in "\n  }\n}": the vocabulary becomes the last member of the last member.
  text.resize(text.size() - 6);
  return text + ",\n    \"vocab\": " + vocabulary_json(spec.vocabulary) + "\n  }\n}\n";
}

void save_wordpiece_files(const WordPieceSpec& spec, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  write_file_atomically(directory / "vocab.txt", vocabulary_text(spec.vocabulary));
  write_file_atomically(directory / "tokenizer.json", wordpiece_tokenizer_json(spec));
  write_file_atomically(directory / "tokenizer_config.json", tokenizer_config_json(spec));
  write_file_atomically(directory / "special_tokens_map.json", special_tokens_map_json(spec));
}

}  // namespace finetune
