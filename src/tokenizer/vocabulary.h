#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace finetune {

/// The pieces of a tokenizer model and their ids. Ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Ids are positions. Of equal tokens the last keeps its id, as in the reference; the others' ids stay
  /// without use.
  static Vocabulary from_lines(std::vector<std::string> lines);

  /// Room for so many tokens.
  void reserve(size_t num_tokens);

  /// Gives `token` the id. Throws `std::invalid_argument` where the id is negative or taken, or the token is
  /// known.
  void add(std::string token, int32_t id);

  std::optional<int32_t> id(std::string_view token) const;
  /// Empty where no token has the id.
  const std::string& token(int32_t id) const;
  bool contains(int32_t id) const;

  int64_t num_tokens() const { return static_cast<int64_t>(ids_.size()); }  ///< distinct
  int32_t end_id() const { return static_cast<int32_t>(tokens_.size()); }   ///< one more than the largest id

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<std::string> tokens_;  ///< by id
  std::vector<bool> in_use_;         ///< by id
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace finetune
