#include "finetune/data/message.h"

#include <algorithm>
#include <cstdio>

#include "finetune/core/error.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

constexpr size_t kMostShown = 60;

}  // namespace

void throw_data_error(const std::filesystem::path& path, int64_t line, const std::string& message) {
  const std::string name = path == "-" ? "standard input" : path.string();
  throw DataError(name + (line > 0 ? ":" + std::to_string(line) : "") + ": " + message);
}

std::string shown(std::string_view value) {
  size_t length = std::min(value.size(), kMostShown);
  const auto is_continuation = [&](size_t i) {
    return (static_cast<unsigned char>(value[i]) & 0xC0) == 0x80;
  };
  while (length > 0 && length < value.size() && is_continuation(length)) --length;
  std::string text = "'";
  for (const char byte : value.substr(0, length)) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20 && code != 0x7F) {
      text += byte;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", code);
    text += escaped;
  }
  return text + (length < value.size() ? "...'" : "'");
}

std::string shown_list(const std::vector<std::string>& values) {
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const std::string& value : values) items.push_back(shown(value));
  return join_some(items);
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? " (did you mean " + shown(*nearest) + "?)" : "";
}

}  // namespace finetune
