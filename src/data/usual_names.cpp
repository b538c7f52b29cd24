#include "usual_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace finetune {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kUsualTextNames = {
    "text"sv,       "texts"sv,     "sentence"sv,   "sentence1"sv, "sentence2"sv, "sentence_1"sv,
    "sentence_2"sv, "premise"sv,   "hypothesis"sv, "question"sv,  "question1"sv, "question2"sv,
    "query"sv,      "document"sv,  "review"sv,     "comment"sv,   "content"sv,   "tweet"sv,
    "message"sv,    "utterance"sv, "passage"sv,    "text_pair"sv, "text_a"sv,    "text_b"sv};
constexpr std::array kUsualLabelNames = {"label"sv,  "labels"sv, "category"sv,  "class"sv,      "target"sv,
                                         "intent"sv, "score"sv,  "sentiment"sv, "gold_label"sv, "label_id"sv};
constexpr std::array kUsualIdNames = {"id"sv,     "idx"sv,     "index"sv,  "guid"sv,      "uuid"sv,
                                      "uid"sv,    "#"sv,       "key"sv,    "row_id"sv,    "rowid"sv,
                                      "doc_id"sv, "pair_id"sv, "pairid"sv, "unnamed:0"sv, "split"sv};

std::string without_case_and_blanks(std::string_view field) {
  std::string lower;
  for (const char byte : field) {
    if (byte != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  }
  return lower;
}

template <typename Names>
bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_usual_name(std::string_view field, bool label) {
  const std::string name = without_case_and_blanks(field);
  return label ? has(kUsualLabelNames, name) : has(kUsualTextNames, name);
}

bool is_usual_id_name(std::string_view field) { return has(kUsualIdNames, without_case_and_blanks(field)); }

}  // namespace finetune
