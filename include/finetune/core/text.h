#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// The candidate nearest to `name` by edit distance, if near enough to be a slip of the pen.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// "a, b and 3 more".
std::string join_some(const std::vector<std::string>& items, size_t most = 10);

/// The first byte at which `text` stops being valid UTF-8 (overlong forms and surrogates are not), or npos.
size_t find_invalid_utf8(std::string_view text);

/// The parts between runs of blanks (space, tab, carriage return); none is empty.
std::vector<std::string> split_at_blanks(std::string_view text);

/// The parts between separators, of which there may be empty ones; `text` itself where it has none.
std::vector<std::string> split_at(std::string_view text, std::string_view separator);

/// A to Z in lower case; other bytes stay.
std::string lower_ascii(std::string_view text);

/// "1,234,567".
std::string with_thousands(long long number);

}  // namespace finetune
