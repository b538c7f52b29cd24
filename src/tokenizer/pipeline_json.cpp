#include "pipeline_json.h"

#include <utility>

#include "base64.h"
#include "json_access.h"
#include "score_reading.h"
#include "tokenizer_json.h"

namespace finetune {
namespace {

using nlohmann::json;

Merges parse_merges(const json& model, const std::string& place) {
  Merges merges;
  const json& entries = member(model, "merges", place);
  merges.reserve(entries.size());
  for (const json& entry : entries) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
      continue;
    }
    const std::string text = entry.is_string() ? entry.get<std::string>() : std::string();
    const size_t blank = text.find(' ');
    if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
      fail_at(place + "/merges/" + std::to_string(merges.size()), shown(entry), "two pieces");
    }
    merges.emplace_back(text.substr(0, blank), text.substr(blank + 1));
  }
  return merges;
}

void parse_bpe(const json& model, const std::string& place, PipelineSpec& spec) {
  spec.vocabulary = parse_vocabulary(member(model, "vocab", place), place + "/vocab");
  spec.merges = parse_merges(model, place);
  if (const auto unknown = get_or<std::string>(model, "unk_token", "", place); !unknown.empty()) {
    spec.bpe.unk_token = unknown;
  }
  spec.bpe.continuing_subword_prefix = get_or<std::string>(model, "continuing_subword_prefix", "", place);
  spec.bpe.end_of_word_suffix = get_or<std::string>(model, "end_of_word_suffix", "", place);
  spec.bpe.fuse_unk = get_or(model, "fuse_unk", false, place);
  spec.bpe.byte_fallback = get_or(model, "byte_fallback", false, place);
  spec.bpe.ignore_merges = get_or(model, "ignore_merges", false, place);
}

void parse_unigram(const json& model, const std::string& place, PipelineSpec& spec) {
  const json& entries = member(model, "vocab", place);
  if (!entries.is_array() || entries.empty()) {
    fail_at(place + "/vocab", shown(entries), "a list of pieces and scores");
  }
  std::vector<std::string> tokens;
  for (const json& entry : entries) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      fail_at(place + "/vocab/" + std::to_string(tokens.size()), shown(entry), "a piece and its score");
    }
    tokens.push_back(entry[0].get<std::string>());
    spec.scores.push_back(score_as_reference_reads(entry[1].get<double>()));
  }
  spec.vocabulary = Vocabulary::from_lines(std::move(tokens));
  spec.byte_fallback = get_or(model, "byte_fallback", false, place);
  const auto unknown = get_or<int64_t>(model, "unk_id", -1, place);
  if (unknown >= static_cast<int64_t>(spec.scores.size())) {
    fail_at(place + "/unk_id", std::to_string(unknown),
            "an id below the vocabulary's " + std::to_string(spec.scores.size()));
  }
  if (unknown >= 0) spec.unk_id = static_cast<int32_t>(unknown);
}

void parse_wordpiece(const json& model, const std::string& place, PipelineSpec& spec) {
  spec.vocabulary = parse_vocabulary(member(model, "vocab", place), place + "/vocab");
  spec.wordpiece = parse_wordpiece_options(model, place);
}

}  // namespace

ModelKind parse_model_kind(const json& model, const std::string& place) {
  const auto type = get_or<std::string>(model, "type", "WordPiece", place);
  if (type == "WordPiece") return ModelKind::kWordPiece;
  if (type == "BPE") return ModelKind::kBpe;
  if (type == "Unigram") return ModelKind::kUnigram;
  fail_at(place + "/type", "'" + type + "'", "'WordPiece', 'BPE' or 'Unigram', the kinds that are supported");
}

void parse_model(const json& model, ModelKind kind, const std::string& place, PipelineSpec& spec) {
  spec.model = kind;
  switch (kind) {
    case ModelKind::kBpe:
      return parse_bpe(model, place, spec);
    case ModelKind::kUnigram:
      return parse_unigram(model, place, spec);
    case ModelKind::kWordPiece:
      return parse_wordpiece(model, place, spec);
  }
}

std::string find_charsmap(const json& normalizer, const std::string& place) {
  if (!normalizer.is_object()) return {};
  const bool in_sequence = normalizer.value("type", "") == "Sequence";
  const json parts = in_sequence ? member(normalizer, "normalizers", place) : json::array({normalizer});
  for (const json& part : parts) {
    if (part.value("type", "") != "Precompiled" || !part.contains("precompiled_charsmap")) continue;
    const auto bytes = decode_base64(get<std::string>(part, "precompiled_charsmap", place));
    if (!bytes)
      fail_at(place + "/precompiled_charsmap", "text that is not base64", "a character map in base64");
    return *bytes;
  }
  return {};
}

}  // namespace finetune
