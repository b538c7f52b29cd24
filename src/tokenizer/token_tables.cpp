#include "token_tables.h"

#include <algorithm>

namespace finetune {

std::optional<int32_t> TokenTables::token_id(std::string_view token) const {
  for (const AddedToken& added : added_tokens) {
    if (added.content == token) return added.id;
  }
  return vocabulary.id(token);
}

std::string TokenTables::token(int32_t id) const {
  for (const AddedToken& added : added_tokens) {
    if (added.id == id) return added.content;
  }
  return vocabulary.token(id);
}

std::string TokenTables::named_token(std::string_view key) const {
  for (const auto& [name, token] : named_tokens) {
    if (name == key) return token;
  }
  return {};
}

int64_t TokenTables::num_ids() const {
  int32_t end = vocabulary.end_id();
  for (const AddedToken& token : added_tokens) end = std::max(end, token.id + 1);
  return end;
}

}  // namespace finetune
