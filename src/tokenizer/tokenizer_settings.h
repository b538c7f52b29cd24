#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "added_tokens.h"
#include "tokenizer_directory.h"

namespace finetune {

/// What tokenizer_config.json says, completed by special_tokens_map.json and added_tokens.json as
/// `transformers` does.
class TokenizerSettings {
 public:
  /// Throws `CheckpointError` for values of the wrong type. Warns of keys that have no effect.
  explicit TokenizerSettings(const TokenizerDirectory& directory);

  /// A switch; empty where the key is absent or null.
  std::optional<bool> flag(const char* key) const;
  /// A word of a few, such as "left"; empty where the key is absent or null.
  std::optional<std::string> word(const char* key) const;

  /// A number; empty where the key is absent or null.
  std::optional<int64_t> number(const char* key) const;
  /// Whether a token is given as an object, with its properties.
  bool is_object(const char* key) const;
  /// Whether `truncation_side` is "left".
  bool truncates_left() const;
  /// Whether the files list further special tokens, be it none.
  bool lists_extra_tokens() const;

  /// Named special tokens in the reference's order: "cls_token" and the token. `defaults` fills in what the
  /// files do not name (a key that is null stays without token).
  std::vector<std::pair<std::string, AddedToken>> named_tokens(
      const std::vector<std::pair<std::string, std::string>>& defaults) const;
  /// Further special tokens, without name.
  std::vector<AddedToken> extra_tokens() const;
  /// Tokens to add, in order of the ids that the files give: of `added_tokens_decoder` where it is there,
  /// else of added_tokens.json and `from_tokenizer_json`.
  std::vector<AddedToken> added_tokens(const std::vector<AddedToken>& from_tokenizer_json) const;

  /// The keys of tokenizer_config.json that a saved directory takes over.
  Json kept() const;

 private:
  std::string place(const std::string& key) const;

  const TokenizerDirectory& directory_;
  Json values_;
};

}  // namespace finetune
