#include "pipeline_files.h"

#include <algorithm>
#include <string_view>

#include "finetune/core/file.h"
#include "tokenizer_files.h"

namespace finetune {
namespace {

Json ordered(const nlohmann::json& value) { return Json::parse(value.dump()); }

Json post_processor_json(const PostProcessor& processor) {
  Json trim = {{"type", "ByteLevel"},
               {"add_prefix_space", processor.trim.add_prefix_space},
               {"trim_offsets", true},
               {"use_regex", true}};
  Json rows = row_template_json(processor.rows);
  if (!processor.trim.trims) return processor.has_rows ? rows : Json();
  if (!processor.has_rows) return trim;
  return {{"type", "Sequence"}, {"processors", Json::array({trim, rows})}};
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

std::string merges_json(const Merges& merges) {
  std::string text = "[";
  for (const auto& [first, second] : merges) {
    if (text.size() > 1) text += ',';
    text += "\n      [" + quoted(first) + ", " + quoted(second) + "]";
  }
  return text + "\n    ]";
}

std::string scored_vocabulary_json(const PipelineSpec& spec) {
  std::string text = "[";
  // Also pieces that a later one of the same text hides: ids are places.
  for (size_t id = 0; id < spec.scores.size(); ++id) {
    if (id > 0) text += ',';
    text += "\n      [" + quoted(spec.vocabulary.token(static_cast<int32_t>(id))) + ", " +
            Json(spec.scores[id]).dump() + "]";
  }
  return text + "\n    ]";
}

std::string model_json(const PipelineSpec& spec) {
  Json head = Json::object();
  std::string tail;
  switch (spec.model) {
    case ModelKind::kBpe:
      head = {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", spec.bpe.unk_token ? Json(*spec.bpe.unk_token) : Json()},
              {"continuing_subword_prefix", spec.bpe.continuing_subword_prefix},
              {"end_of_word_suffix", spec.bpe.end_of_word_suffix},
              {"fuse_unk", spec.bpe.fuse_unk},
              {"byte_fallback", spec.bpe.byte_fallback},
              {"ignore_merges", spec.bpe.ignore_merges}};
      tail =
          "\"vocab\": " + vocabulary_json(spec.vocabulary) + ",\n    \"merges\": " + merges_json(spec.merges);
      break;
    case ModelKind::kUnigram:
      head = {{"type", "Unigram"},
              {"unk_id", spec.unk_id ? Json(*spec.unk_id) : Json()},
              {"byte_fallback", spec.byte_fallback}};
      tail = "\"vocab\": " + scored_vocabulary_json(spec);
      break;
    case ModelKind::kWordPiece:
      head = {{"type", "WordPiece"},
              {"unk_token", spec.wordpiece.unk_token},
              {"continuing_subword_prefix", spec.wordpiece.continuing_subword_prefix},
              {"max_input_chars_per_word", spec.wordpiece.max_input_chars_per_word}};
      tail = "\"vocab\": " + vocabulary_json(spec.vocabulary);
      break;
  }
  std::string text = head.dump();
  text.pop_back();
  return text + ",\n    " + tail + "\n  }";
}

bool is_named_token(const PipelineSpec& spec, const std::string& content) {
  return std::any_of(spec.named_tokens.begin(), spec.named_tokens.end(),
                     [&](const auto& entry) { return entry.second == content; });
}

std::string tokenizer_config_json(const PipelineSpec& spec) {
  Json config = Json::object();
  config["tokenizer_class"] = spec.class_name;
  for (const auto& [key, token] : spec.named_tokens) config[key] = token;
  Json decoder = Json::object(), extra = Json::array();
  for (const AddedToken& token : by_id(spec.added_tokens)) {
    decoder[std::to_string(token.id)] = added_token_json(token);
    if (token.special && !is_named_token(spec, token.content)) extra.push_back(token.content);
  }
  config["added_tokens_decoder"] = decoder;
  config["extra_special_tokens"] = extra;
  if (spec.unk_id) config["unk_id"] = *spec.unk_id;
  for (const auto& [key, value] : spec.other_settings.items()) config[key] = value;
  return config.dump(2) + "\n";
}

}  // namespace

std::string pipeline_tokenizer_json(const PipelineSpec& spec) {
  Json added_tokens = Json::array();
  for (const AddedToken& token : by_id(spec.added_tokens)) {
    Json entry = {{"id", token.id}};
    entry.update(added_token_json(token));
    added_tokens.push_back(entry);
  }
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens},
                     {"normalizer", ordered(spec.normalizer)},
                     {"pre_tokenizer", ordered(spec.pre_tokenizer)},
                     {"post_processor", post_processor_json(spec.post_processor)},
                     {"decoder", ordered(spec.decoder)}};
  std::string text = root.dump(2);
  // Ends in "\n}": the model becomes the last member.
  text.resize(text.size() - 2);
  return text + ",\n  \"model\": " + model_json(spec) + "\n}\n";
}

void save_pipeline_files(const PipelineSpec& spec, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  write_file_atomically(directory / "tokenizer.json", pipeline_tokenizer_json(spec));
  write_file_atomically(directory / "tokenizer_config.json", tokenizer_config_json(spec));
  write_file_atomically(directory / "special_tokens_map.json", special_tokens_map_json(spec.named_tokens));
}

}  // namespace finetune
