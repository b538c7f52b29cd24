#include "regex_pattern.h"

#include <unicode/regex.h>
#include <unicode/utext.h>

#include <array>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <utility>

#include "unicode_tables.h"

namespace finetune {
namespace {

std::string set_of(std::span<const unicode::CodePointRange> ranges, bool complement) {
  std::string set = complement ? "[^" : "[";
  for (const auto& range : ranges) {
    std::array<char, 40> buffer;
    std::snprintf(buffer.data(), buffer.size(), "\\x{%X}-\\x{%X}", range.first, range.last);
    set += buffer.data();
  }
  return set + "]";
}

/// The class that begins at the backslash at `position`, as a set; its length goes to `length`. Empty where
/// it is no class of the tables.
std::string class_at(const std::string& expression, size_t position, size_t& length) {
  const auto is_here = [&](const char* text) {
    length = std::char_traits<char>::length(text);
    return expression.compare(position, length, text) == 0;
  };
  if (is_here("\\p{L}")) return set_of(unicode::letter_ranges(), false);
  if (is_here("\\P{L}")) return set_of(unicode::letter_ranges(), true);
  if (is_here("\\p{N}")) return set_of(unicode::number_ranges(), false);
  if (is_here("\\P{N}")) return set_of(unicode::number_ranges(), true);
  if (is_here("\\s")) return set_of(unicode::white_space_ranges(), false);
  if (is_here("\\S")) return set_of(unicode::white_space_ranges(), true);
  if (is_here("\\w")) return set_of(unicode::regex_word_ranges(), false);
  if (is_here("\\W")) return set_of(unicode::regex_word_ranges(), true);
  if (is_here("\\d")) return set_of(unicode::digit_ranges(), false);
  if (is_here("\\D")) return set_of(unicode::digit_ranges(), true);
  return {};
}

std::string with_our_classes(const std::string& expression) {
  std::string result;
  for (size_t position = 0; position < expression.size();) {
    if (expression[position] != '\\') {
      result += expression[position++];
      continue;
    }
    size_t length = 0;
    const std::string set = class_at(expression, position, length);
    result += set.empty() ? expression.substr(position, 2) : set;
    position += set.empty() ? 2 : length;
  }
  return result;
}

}  // namespace

struct TextPattern::Compiled {
  std::unique_ptr<icu::RegexPattern> pattern;
};

TextPattern::TextPattern(std::string text) : text_(std::move(text)) {}
TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern& TextPattern::operator=(TextPattern&&) noexcept = default;
TextPattern::~TextPattern() = default;

TextPattern TextPattern::literal(std::string text) { return TextPattern(std::move(text)); }

TextPattern TextPattern::regex(const std::string& expression) {
  TextPattern pattern{std::string()};
  UErrorCode status = U_ZERO_ERROR;
  UParseError place;
  // In Ruby's syntax ^ and $ stand at every line feed.
  constexpr uint32_t kFlags = UREGEX_MULTILINE | UREGEX_UNIX_LINES;
  std::unique_ptr<icu::RegexPattern> compiled(icu::RegexPattern::compile(
      icu::UnicodeString::fromUTF8(with_our_classes(expression)), kFlags, place, status));
  if (U_FAILURE(status)) throw std::invalid_argument(u_errorName(status));
  pattern.compiled_ = std::make_unique<Compiled>(Compiled{std::move(compiled)});
  return pattern;
}

std::vector<PatternPart> TextPattern::parts(std::string_view text) const {
  std::vector<PatternPart> parts;
  compiled_ ? find_regex(text, parts) : find_literal(text, parts);
  const size_t end = parts.empty() ? 0 : parts.back().end;
  if (end < text.size()) parts.push_back({end, text.size(), false});
  return parts;
}

void TextPattern::find_literal(std::string_view text, std::vector<PatternPart>& parts) const {
  if (text_.empty()) return;
  size_t last = 0;
  for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, last)) {
    if (last < at) parts.push_back({last, at, false});
    last = at + text_.size();
    parts.push_back({at, last, true});
  }
}

void TextPattern::find_regex(std::string_view text, std::vector<PatternPart>& parts) const {
  UErrorCode status = U_ZERO_ERROR;
  std::unique_ptr<icu::RegexMatcher> matcher(compiled_->pattern->matcher(status));
  UText* input = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
  if (U_FAILURE(status)) throw std::runtime_error(u_errorName(status));
  matcher->reset(input);
  size_t last = 0;
  while (matcher->find(status) && U_SUCCESS(status)) {
    const auto begin = static_cast<size_t>(matcher->start64(status));
    const auto end = static_cast<size_t>(matcher->end64(status));
    if (last < begin) parts.push_back({last, begin, false});
    parts.push_back({begin, end, true});
    last = end;
  }
  matcher.reset();
  utext_close(input);
  if (U_FAILURE(status)) throw std::runtime_error(u_errorName(status));
}

}  // namespace finetune
