#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// Bytes [begin, end) of a text that a pattern matches, or does not.
struct PatternPart {
  size_t begin;
  size_t end;
  bool is_match;
};

/// A text to look for, or a regular expression in the reference's dialect (Oniguruma's Ruby syntax), run by
/// ICU with the reference's tables for \s, \w, \d, \p{L} and \p{N}. May be used from several threads.
class TextPattern {
 public:
  static TextPattern literal(std::string text);
  /// Throws `std::invalid_argument` where ICU does not understand it.
  static TextPattern regex(const std::string& expression);

  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;
  ~TextPattern();

  /// All of `text`, in order: matches, and what lies between.
  std::vector<PatternPart> parts(std::string_view text) const;

 private:
  struct Compiled;
  explicit TextPattern(std::string text);

  void find_literal(std::string_view text, std::vector<PatternPart>& parts) const;
  void find_regex(std::string_view text, std::vector<PatternPart>& parts) const;

  std::string text_;                    ///< of a literal
  std::unique_ptr<Compiled> compiled_;  ///< of an expression
};

}  // namespace finetune
