#include "added_token_list.h"

#include <algorithm>
#include <utility>

namespace finetune {

void AddedTokenList::add(const std::vector<AddedToken>& tokens) {
  // Counts distinct tokens: where the vocabulary names one twice, the reference's new id is in use already.
  auto next_id = static_cast<int32_t>(vocabulary_.num_tokens());
  for (const AddedToken& token : tokens_) next_id = std::max(next_id, token.id + 1);
  for (AddedToken token : tokens) {
    if (token.content.empty()) continue;
    if (const AddedToken* known = find(token.content)) {
      token.id = known->id;
    } else if (const auto id = vocabulary_.id(token.content)) {
      token.id = *id;
    } else {
      token.id = next_id++;
    }
    put(std::move(token));
  }
}

void AddedTokenList::put(AddedToken token) {
  std::erase_if(tokens_, [&](const AddedToken& known) {
    return known.content == token.content || known.id == token.id;
  });
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokenList::find(const std::string& content) const {
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [&](const AddedToken& token) { return token.content == content; });
  return found == tokens_.end() ? nullptr : &*found;
}

std::vector<AddedToken> tokens_to_add(std::vector<AddedToken> tokens,
                                      const std::vector<std::pair<std::string, AddedToken>>& named,
                                      const std::vector<AddedToken>& extra, const AddedTokenList& known) {
  const size_t num_listed = tokens.size();
  // A special token that is given twice, with other properties, is added twice: the last counts.
  const auto add = [&](const AddedToken& token) {
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(num_listed);
    const bool listed = known.find(token.content) != nullptr ||
                        std::any_of(tokens.begin(), end,
                                    [&](const AddedToken& other) { return other.content == token.content; });
    if (!listed && std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  };
  for (const auto& [key, token] : named) add(token);
  for (const AddedToken& token : extra) add(token);
  for (AddedToken& token : tokens) {
    token.special |= std::any_of(named.begin(), named.end(),
                                 [&](const auto& entry) { return entry.second.content == token.content; });
  }
  return tokens;
}

}  // namespace finetune
