#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.h"
#include "finetune/core/json.h"
#include "vocabulary.h"

namespace finetune {

/// What a tokenizer of any kind knows of its tokens, whichever files it came from.
struct TokenTables {
  Vocabulary vocabulary;
  std::vector<AddedToken> added_tokens;  ///< distinct contents
  bool truncate_left = false;            ///< a row that is too long loses its beginning
  bool split_special_tokens = false;     ///< special tokens in the text are text
  std::vector<std::pair<std::string, std::string>> named_tokens;  ///< "cls_token" -> "[CLS]", ...
  Json other_settings = Json::object();  ///< of tokenizer_config.json, kept when saving

  std::optional<int32_t> token_id(std::string_view token) const;
  std::string token(int32_t id) const;
  /// The token named `key`, or an empty string.
  std::string named_token(std::string_view key) const;
  int64_t num_ids() const;  ///< one more than the largest id
};

}  // namespace finetune
