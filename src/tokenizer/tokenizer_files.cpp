#include "tokenizer_files.h"

#include <algorithm>

namespace finetune {
namespace {

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

}  // namespace

Json added_token_json(const AddedToken& token) {
  return {{"content", token.content}, {"single_word", token.single_word}, {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},   {"normalized", token.normalized},   {"special", token.special}};
}

std::vector<AddedToken> by_id(std::vector<AddedToken> tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

Json row_template_json(const RowTemplate& rows) {
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

std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    if (!vocabulary.contains(id)) continue;
    if (text.size() > 1) text += ',';
    text += "\n      " + Json(vocabulary.token(id)).dump() + ": " + std::to_string(id);
  }
  return text + "\n    }";
}

std::string special_tokens_map_json(const std::vector<std::pair<std::string, std::string>>& named_tokens) {
  Json map = Json::object();
  for (const auto& [key, token] : named_tokens) map[key] = token;
  return map.dump(2) + "\n";
}

}  // namespace finetune
