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

}  // namespace finetune
