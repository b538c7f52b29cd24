#include "wordpiece_files.h"

#include "finetune/core/file.h"
#include "tokenizer_files.h"

namespace finetune {
namespace {

Json optional_flag(const std::optional<bool>& flag) { return flag ? Json(*flag) : Json(nullptr); }

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
      {"post_processor", row_template_json(spec.rows)},
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
  write_file_atomically(directory / "special_tokens_map.json", special_tokens_map_json(spec.named_tokens));
}

}  // namespace finetune
