#include "post_processor_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "json_access.h"

namespace finetune {
namespace {

using nlohmann::json;

/// The tokens of `special_tokens/NAME` of a template, each with the type of its place.
void append_template_tokens(const json& processor, const json& piece, const std::string& place,
                            std::vector<TemplateToken>& tokens) {
  const json& reference = piece["SpecialToken"];
  const auto name = get<std::string>(reference, "id", place);
  const auto type_id = get<int32_t>(reference, "type_id", place);
  const json& special = member(member(processor, "special_tokens", place), name.c_str(), place);
  const auto ids = get<std::vector<int32_t>>(special, "ids", place);
  const auto names = get<std::vector<std::string>>(special, "tokens", place);
  if (ids.size() != names.size()) fail_at(place, "a different number of ids and tokens", "as many");
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
      fail_at(place + "/" + key, shown(piece), "SpecialToken or Sequence");
    }
  }
  return parts;
}

RowTemplate parse_template_processing(const json& processor, const std::string& place) {
  TemplateParts single = parse_template(processor, "single", place);
  TemplateParts pair = parse_template(processor, "pair", place);
  if (single.texts != std::vector<std::string>{"A"} || pair.texts != std::vector<std::string>{"A", "B"}) {
    fail_at(place, "a template with its texts in another order", "A, and A before B");
  }
  RowTemplate rows;
  rows.single = {single.specials[0], single.specials[1], single.text_types[0]};
  rows.pair = {pair.specials[0], pair.specials[1], pair.specials[2], pair.text_types[0], pair.text_types[1]};
  return rows;
}

RowTemplate parse_bert_processing(const json& processor, const std::string& place) {
  const auto sep = get<std::pair<std::string, int32_t>>(processor, "sep", place);
  const auto cls = get<std::pair<std::string, int32_t>>(processor, "cls", place);
  return bert_template(cls.first, cls.second, sep.first, sep.second);
}

bool all_of_type(const std::vector<TemplateToken>& tokens, int32_t type_id) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [&](const auto& token) { return token.type_id == type_id; });
}

OffsetTrim parse_trim(const json& processor, const std::string& place) {
  return {get_or(processor, "trim_offsets", true, place), get_or(processor, "add_prefix_space", true, place)};
}

PostProcessor parse_sequence(const json& sequence, const std::string& place) {
  PostProcessor combined;
  bool has_rows = false;
  for (const json& component : member(sequence, "processors", place)) {
    const PostProcessor part = parse_post_processor(component, place + "/processors");
    if (part.trim.trims) combined.trim = part.trim;
    if (!part.has_rows) continue;
    if (has_rows) fail_at(place, "two components that add special tokens", "one");
    combined.rows = part.rows;
    combined.has_rows = has_rows = true;
  }
  return combined;
}

}  // namespace

void check_segments(const RowTemplate& rows, const std::string& place) {
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
    fail_at(place, "token types in another order", "0 throughout a single text, and 0 then 1 in a pair");
  }
}

PostProcessor parse_post_processor(const json& component, const std::string& place) {
  const auto type = get<std::string>(component, "type", place);
  if (type == "TemplateProcessing") return {parse_template_processing(component, place), true, {}};
  if (type == "BertProcessing") return {parse_bert_processing(component, place), true, {}};
  if (type == "RobertaProcessing") {
    const RowTemplate bert = parse_bert_processing(component, place);
    const auto& cls = bert.single.before[0];
    const auto& sep = bert.single.after[0];
    return {roberta_template(cls.token, cls.id, sep.token, sep.id), true, parse_trim(component, place)};
  }
  if (type == "ByteLevel") return {{}, false, parse_trim(component, place)};
  if (type == "Sequence") return parse_sequence(component, place);
  fail_at(place, "'" + type + "'",
          "'TemplateProcessing', 'BertProcessing', 'RobertaProcessing', 'ByteLevel' or a 'Sequence' of them, "
          "the ones that are supported");
}

}  // namespace finetune
