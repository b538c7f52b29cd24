#include "vocabulary.h"

#include <stdexcept>
#include <utility>

namespace finetune {

Vocabulary Vocabulary::from_lines(std::vector<std::string> lines) {
  Vocabulary vocabulary;
  vocabulary.tokens_ = std::move(lines);
  vocabulary.in_use_.assign(vocabulary.tokens_.size(), true);
  vocabulary.ids_.reserve(vocabulary.tokens_.size());
  for (size_t i = 0; i < vocabulary.tokens_.size(); ++i) {
    const auto [place, added] = vocabulary.ids_.try_emplace(vocabulary.tokens_[i], static_cast<int32_t>(i));
    if (added) continue;
    vocabulary.in_use_[static_cast<size_t>(place->second)] = false;
    place->second = static_cast<int32_t>(i);
  }
  return vocabulary;
}

void Vocabulary::reserve(size_t num_tokens) {
  tokens_.reserve(num_tokens);
  in_use_.reserve(num_tokens);
  ids_.reserve(num_tokens);
}

void Vocabulary::add(std::string token, int32_t id) {
  if (id < 0) throw std::invalid_argument("the id of '" + token + "' is negative");
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) {
    tokens_.resize(index + 1);
    in_use_.resize(index + 1, false);
  }
  if (in_use_[index]) {
    throw std::invalid_argument("'" + tokens_[index] + "' and '" + token + "' both have the id " +
                                std::to_string(id));
  }
  if (!ids_.try_emplace(token, id).second) throw std::invalid_argument("'" + token + "' has two ids");
  tokens_[index] = std::move(token);
  in_use_[index] = true;
}

std::optional<int32_t> Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string& Vocabulary::token(int32_t id) const {
  static const std::string kNone;
  return id >= 0 && id < end_id() ? tokens_[static_cast<size_t>(id)] : kNone;
}

bool Vocabulary::contains(int32_t id) const {
  return id >= 0 && id < end_id() && in_use_[static_cast<size_t>(id)];
}

}  // namespace finetune
