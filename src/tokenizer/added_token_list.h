#pragma once

#include <string>
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

}  // namespace finetune
