#pragma once

#include <string>
#include <utility>
#include <vector>

#include "added_tokens.h"
#include "vocabulary.h"

namespace finetune {

/// Added tokens as they come from files, given ids by the reference's rule.
class AddedTokenList {
 public:
  /// `vocabulary` must outlive the list.
  explicit AddedTokenList(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// Adds tokens in order: one that the model or the list knows keeps its id (and takes the new properties),
  /// others are numbered from the end. The tokens' own ids are not looked at.
  void add(const std::vector<AddedToken>& tokens);

  const AddedToken* find(const std::string& content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  void put(AddedToken token);

  const Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
};

/// The files' added tokens, then special tokens that are not among them; in the reference's order, which
/// decides new ids. `named` are special tokens with their names ("cls_token"), `extra` such without.
std::vector<AddedToken> tokens_to_add(std::vector<AddedToken> tokens,
                                      const std::vector<std::pair<std::string, AddedToken>>& named,
                                      const std::vector<AddedToken>& extra, const AddedTokenList& known);

}  // namespace finetune
