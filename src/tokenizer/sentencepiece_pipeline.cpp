#include "sentencepiece_pipeline.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base64.h"
#include "utf8.h"

namespace finetune {
namespace {

using nlohmann::json;
using Type = SentencePieceFile::Type;

json replace(const json& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

/// Every split of a normal piece into two normal pieces, by the piece's score, then by its id.
Merges ranked_merges(const SentencePieceFile& file) {
  struct Rank {
    float score;
    size_t id;
  };
  std::unordered_map<std::string_view, Rank> normal;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const auto& piece = file.pieces[id];
    if (piece.type == Type::kNormal) normal[piece.text] = {piece.score, id};
  }
  std::vector<std::tuple<float, size_t, std::string_view, std::string_view>> ranked;
  for (const auto& [text, rank] : normal) {
    for (size_t split = 0; split < text.size();) {
      split += decode_utf8(text, split).length;
      const std::string_view left = text.substr(0, split), right = text.substr(split);
      if (normal.contains(left) && normal.contains(right))
        ranked.emplace_back(-rank.score, rank.id, left, right);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  Merges merges;
  merges.reserve(ranked.size());
  for (const auto& [score, id, left, right] : ranked) merges.emplace_back(left, right);
  return merges;
}

/// Python's `re.escape`.
std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("()[]{}?*+-|^$\\.&~# \t\n\r\v\f").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

json user_defined_split(std::vector<std::string> pieces) {
  const auto num_characters = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(),
                         [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; });
  };
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const auto& a, const auto& b) { return num_characters(a) > num_characters(b); });
  std::string pattern;
  for (const std::string& piece : pieces) pattern += (pattern.empty() ? "" : "|") + escape(piece);
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json normalizer_of(const SentencePieceFile& file, bool legacy) {
  json parts = json::array();
  if (!file.charsmap.empty()) {
    parts.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(file.charsmap)}});
  }
  if (file.remove_extra_whitespaces) {
    parts.push_back(replace({{"Regex", "\\A +| +\\z"}}, ""));
    parts.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  if (file.escape_whitespaces) parts.push_back(replace({{"String", " "}}, "\u2581"));
  // Metaspace leaves out the mark before a text that has one; SentencePiece does not.
  if (file.add_dummy_prefix && legacy) parts.push_back(replace({{"Regex", "\\A\u2581"}}, "\u2581\u2581"));
  return {{"type", "Sequence"}, {"normalizers", parts}};
}

}  // namespace

std::vector<AddedToken> sentencepiece_tokens(const SentencePieceFile& file, bool user_defined) {
  std::vector<AddedToken> tokens;
  for (const auto& piece : file.pieces) {
    const bool control = piece.type == Type::kControl;
    if (!control && !(user_defined && piece.type == Type::kUserDefined)) continue;
    AddedToken token;
    token.content = piece.text;
    token.special = control;
    tokens.push_back(token);
  }
  return tokens;
}

void set_sentencepiece_pipeline(const SentencePieceFile& file, bool legacy, PipelineSpec& spec) {
  std::vector<std::string> tokens, user_defined;
  for (const auto& piece : file.pieces) {
    tokens.push_back(piece.text);
    spec.scores.push_back(static_cast<double>(piece.score));
    if (piece.type == Type::kUserDefined) user_defined.push_back(piece.text);
  }
  spec.vocabulary = Vocabulary::from_lines(std::move(tokens));
  if (file.model_type == SentencePieceFile::kUnigram) {
    spec.model = ModelKind::kUnigram;
    spec.unk_id = static_cast<int32_t>(file.unk_id);
    spec.byte_fallback = file.byte_fallback;
  } else {
    spec.model = ModelKind::kBpe;
    spec.merges = ranked_merges(file);
    spec.bpe.unk_token = file.unk_piece;
    spec.bpe.fuse_unk = true;
    spec.bpe.byte_fallback = file.byte_fallback;
    spec.bpe.ignore_merges = !user_defined.empty();
  }
  spec.normalizer = normalizer_of(file, legacy);
  json splitters = json::array();
  if (file.add_dummy_prefix) {
    splitters.push_back({{"type", "Metaspace"},
                         {"replacement", "\u2581"},
                         {"prepend_scheme", legacy ? "always" : "first"},
                         {"split", false}});
  }
  if (!user_defined.empty()) splitters.push_back(user_defined_split(std::move(user_defined)));
  if (!splitters.empty()) spec.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", splitters}};
}

}  // namespace finetune
