#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// Throws a `DataError` that reads "path:line: message" ("path: message" where `line` is 0). `-` is the
/// standard input.
[[noreturn]] void throw_data_error(const std::filesystem::path& path, int64_t line,
                                   const std::string& message);

/// A value from a file as a message shows it: in single quotes, control characters as `\x00`, cut after some
/// 60 bytes.
std::string shown(std::string_view value);

/// The same for several, separated by commas; the rest is counted.
std::string shown_list(const std::vector<std::string>& values);

/// " (did you mean 'x'?)" where a candidate is near, else nothing.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace finetune
