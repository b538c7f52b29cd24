#include "json_access.h"

#include "finetune/core/error.h"

namespace finetune {

using nlohmann::json;

void fail_at(const std::string& place, const std::string& found, const std::string& expected) {
  throw CheckpointError(place + ": found " + found + ", expected " + expected);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr size_t kMost = 80;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

const json& member(const json& object, const char* key, const std::string& place) {
  if (!object.is_object()) fail_at(place, shown(object), "an object with '" + std::string(key) + "'");
  const auto found = object.find(key);
  if (found == object.end()) fail_at(place, "no '" + std::string(key) + "'", "it to be there");
  return *found;
}

}  // namespace finetune
