#include "pipeline_loader.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "added_token_list.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "json_access.h"
#include "pipeline_families.h"
#include "pipeline_json.h"
#include "post_processor_json.h"
#include "sentencepiece_pipeline.h"
#include "tokenizer_json.h"
#include "tokenizer_settings.h"
#include "wordpiece_files.h"

namespace finetune {
namespace {

using nlohmann::json;

/// The rest of a component's class, as the reference compares it: "type" of the only part.
std::string only_type(const json& component, const char* list_key) {
  if (!component.is_object()) return {};
  const std::string type = component.value("type", "");
  if (type != "Sequence" || !component.contains(list_key)) return type;
  const json& parts = component[list_key];
  return parts.is_array() && parts.size() == 1 && parts[0].is_object() ? parts[0].value("type", "") : type;
}

const json& part_of(const json& tokenizer, const char* key) {
  static const json kNone;
  const auto found = tokenizer.find(key);
  return found == tokenizer.end() ? kNone : *found;
}

Merges read_merges(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  Merges merges;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("#version")) continue;
    const size_t blank = line.find(' ');
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
      throw CheckpointError(file.string() + ":" + std::to_string(line_number) + ": found '" + line +
                            "', expected two pieces with a blank between; copy the file anew");
    }
    merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return merges;
}

json read_vocabulary_json(const std::filesystem::path& file) {
  try {
    return json::parse(read_file(file));
  } catch (const json::parse_error& error) {
    throw CheckpointError(file.string() + ": not valid JSON at byte " + std::to_string(error.byte) +
                          "; copy the file anew from where the model came from");
  }
}

/// Builds one spec from a directory.
class Loader {
 public:
  Loader(const TokenizerDirectory& directory, const TokenizerChoice& choice)
      : directory_(directory), settings_(directory) {
    spec_.class_name = choice.class_name;
    spec_.place = directory.file("tokenizer.json").string();
  }

  PipelineSpec load_family(const TokenizerFamily& family) {
    name_tokens(family.named_tokens, &family);
    std::string charsmap;
    std::vector<AddedToken> extra = default_extra_tokens(family);
    if (directory_.tokenizer) {
      charsmap = read_family_json(family);
    } else if (!family.sentencepiece_file.empty()) {
      const SentencePieceFile file = read_family_model(family);
      charsmap = file.charsmap;
      extra = sentencepiece_tokens(file, true);
      if (family.kind == FamilyKind::kT5) append(extra, default_extra_tokens(family));
    } else {
      read_vocabulary_files(family);
    }
    set_components(family, settings_, charsmap, spec_);
    add_tokens(settings_.lists_extra_tokens() ? settings_.extra_tokens() : extra, false);
    spec_.post_processor = family_post_processor(family, settings_, spec_, post_processor_of_file());
    return finish();
  }

  PipelineSpec load_file() {
    name_tokens({}, nullptr);
    const json& root = *directory_.tokenizer;
    const json& model = member(root, "model", spec_.place);
    const std::string place = spec_.place + ": /model";
    parse_model(model, parse_model_kind(model, place), place, spec_);
    spec_.normalizer = part_of(root, "normalizer");
    spec_.pre_tokenizer = part_of(root, "pre_tokenizer");
    spec_.decoder = part_of(root, "decoder");
    spec_.post_processor = post_processor_of_file().value_or(PostProcessor{});
    add_tokens(settings_.extra_tokens(), true);
    return finish();
  }

  PipelineSpec load_sentencepiece(const std::string& name) {
    spec_.place = directory_.file(name).string();
    const SentencePieceFile file = read_sentencepiece(directory_.file(name));
    std::vector<std::pair<std::string, std::string>> defaults;
    if (file.bos_id >= 0) defaults.emplace_back("bos_token", file.bos_piece);
    if (file.eos_id >= 0) defaults.emplace_back("eos_token", file.eos_piece);
    if (file.unk_id >= 0) defaults.emplace_back("unk_token", file.unk_piece);
    name_tokens(defaults, nullptr);
    set_sentencepiece_pipeline(file, settings_.flag("legacy").value_or(true), spec_);
    check_unknown_id();
    add_tokens(settings_.lists_extra_tokens() ? settings_.extra_tokens() : sentencepiece_tokens(file, false),
               false);
    const TokenizerFamily& plain = *find_family("GPT2Tokenizer");
    spec_.post_processor = family_post_processor(plain, settings_, spec_, std::nullopt);
    return finish();
  }

 private:
  static void append(std::vector<AddedToken>& tokens, std::vector<AddedToken> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  void name_tokens(const std::vector<std::pair<std::string, std::string>>& defaults,
                   const TokenizerFamily* family) {
    named_ = settings_.named_tokens(defaults);
    for (auto& [key, token] : named_) {
      spec_.named_tokens.emplace_back(key, token.content);
      if (key == "mask_token" && family != nullptr && !settings_.is_object("mask_token")) {
        token.lstrip = family->mask_takes_blank;
      }
    }
  }

  std::vector<AddedToken> default_extra_tokens(const TokenizerFamily& family) const {
    std::vector<AddedToken> tokens;
    const auto add = [&](const std::string& content) {
      tokens.emplace_back();
      tokens.back().content = content;
      tokens.back().special = true;
    };
    for (const std::string& content : family.extra_tokens) add(content);
    if (family.kind != FamilyKind::kT5) return tokens;
    constexpr int64_t kNumExtraIds = 100;
    for (int64_t i = 0; i < settings_.number("extra_ids").value_or(kNumExtraIds); ++i) {
      add("<extra_id_" + std::to_string(i) + ">");
    }
    return tokens;
  }

  std::string read_family_json(const TokenizerFamily& family) {
    const json& root = *directory_.tokenizer;
    const json& model = member(root, "model", spec_.place);
    const std::string place = spec_.place + ": /model";
    const ModelKind kind = parse_model_kind(model, place);
    if (kind != family.model) {
      fail_at(
          place + "/type", "'" + model.value("type", "WordPiece") + "'",
          "the model of " + spec_.class_name +
              "; set tokenizer_class to PreTrainedTokenizerFast in tokenizer_config.json to take the file as "
              "it is");
    }
    parse_model(model, kind, place, spec_);
    spec_.bpe = {};  // the class takes the pieces and merges alone
    if (kind == ModelKind::kUnigram) {
      const bool deberta = family.kind == FamilyKind::kDebertaV2;
      spec_.byte_fallback = false;
      spec_.unk_id = family_unk_id(family, spec_, settings_.number("unk_id").value_or(deberta ? 1 : 0));
      check_unknown_id();
    }
    return find_charsmap(part_of(root, "normalizer"), spec_.place + ": /normalizer");
  }

  SentencePieceFile read_family_model(const TokenizerFamily& family) {
    const std::string name(family.sentencepiece_file);
    spec_.place = directory_.file(name).string();
    SentencePieceFile file = read_sentencepiece(directory_.file(name));
    if (file.model_type != SentencePieceFile::kUnigram) {
      fail_at(spec_.place, "a model of type " + std::to_string(file.model_type), "a unigram model (type 1)");
    }
    spec_.model = ModelKind::kUnigram;
    set_pieces(family, file, settings_, spec_);
    spec_.unk_id = family_unk_id(family, spec_, file.unk_id);
    check_unknown_id();
    return file;
  }

  void check_unknown_id() const {
    if (!spec_.unk_id || (*spec_.unk_id >= 0 && *spec_.unk_id < spec_.vocabulary.end_id())) return;
    fail_at(spec_.place, "no piece with the unknown token's id " + std::to_string(*spec_.unk_id),
            "a vocabulary of " + spec_.class_name);
  }

  void read_vocabulary_files(const TokenizerFamily& family) {
    spec_.model = family.model;
    if (family.model == ModelKind::kWordPiece) {
      spec_.place = directory_.file("vocab.txt").string();
      spec_.vocabulary = read_vocabulary_lines(directory_.file("vocab.txt"));
      return;
    }
    const auto file = directory_.file("vocab.json");
    spec_.place = file.string();
    spec_.vocabulary = parse_vocabulary(read_vocabulary_json(file), file.string());
    spec_.merges = read_merges(directory_.file("merges.txt"));
  }

  std::vector<AddedToken> tokens_of_file() const {
    if (!directory_.tokenizer) return {};
    return TokenizerJson(*directory_.tokenizer, directory_.path / "tokenizer.json").added_tokens();
  }

  std::optional<PostProcessor> post_processor_of_file() const {
    if (!directory_.tokenizer) return std::nullopt;
    const json& component = part_of(*directory_.tokenizer, "post_processor");
    if (component.is_null()) return std::nullopt;
    return parse_post_processor(component, directory_.file("tokenizer.json").string() + ": /post_processor");
  }

  void add_tokens(const std::vector<AddedToken>& extra, bool as_in_file) {
    AddedTokenList added(spec_.vocabulary);
    const std::vector<AddedToken> from_file = tokens_of_file();
    if (as_in_file) added.add(from_file);
    added.add(tokens_to_add(settings_.added_tokens(from_file), named_, extra, added));
    spec_.added_tokens = added.tokens();
  }

  PipelineSpec finish() {
    spec_.truncate_left = settings_.truncates_left();
    spec_.split_special_tokens = settings_.flag("split_special_tokens").value_or(false);
    spec_.other_settings = settings_.kept();
    return std::move(spec_);
  }

  const TokenizerDirectory& directory_;
  TokenizerSettings settings_;
  std::vector<std::pair<std::string, AddedToken>> named_;
  PipelineSpec spec_;
};

}  // namespace

bool is_bert_pipeline(const json& tokenizer) {
  const json& model = part_of(tokenizer, "model");
  const std::string kind = model.is_object() ? model.value("type", "WordPiece") : "WordPiece";
  const std::string normalizer = only_type(part_of(tokenizer, "normalizer"), "normalizers");
  const std::string splitter = only_type(part_of(tokenizer, "pre_tokenizer"), "pretokenizers");
  const std::string processor = only_type(part_of(tokenizer, "post_processor"), "processors");
  return kind == "WordPiece" && (normalizer.empty() || normalizer == "BertNormalizer") &&
         splitter == "BertPreTokenizer" &&
         (processor.empty() || processor == "TemplateProcessing" || processor == "BertProcessing");
}

PipelineSpec load_pipeline_spec(const TokenizerDirectory& directory, const TokenizerChoice& choice) {
  Loader loader(directory, choice);
  if (choice.build == TokenizerBuild::kFamily) return loader.load_family(*find_family(choice.class_name));
  if (directory.tokenizer) return loader.load_file();
  return loader.load_sentencepiece("tokenizer.model");
}

}  // namespace finetune
