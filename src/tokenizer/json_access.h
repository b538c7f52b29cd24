#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace finetune {

/// Throws `CheckpointError`: "PLACE: found FOUND, expected EXPECTED".
[[noreturn]] void fail_at(const std::string& place, const std::string& found, const std::string& expected);

/// A value as text of at most some eighty bytes, for messages.
std::string shown(const nlohmann::json& value);

/// The member `key`; throws `CheckpointError` where it is missing.
const nlohmann::json& member(const nlohmann::json& object, const char* key, const std::string& place);

/// The member as a `Value`; throws `CheckpointError` where it is missing or of another type.
template <typename Value>
Value get(const nlohmann::json& object, const char* key, const std::string& place) {
  const nlohmann::json& value = member(object, key, place);
  try {
    return value.get<Value>();
  } catch (const nlohmann::json::exception&) {
    fail_at(place + "/" + key, shown(value), "a value of another type");
  }
}

/// `fallback` where the member is missing or null.
template <typename Value>
Value get_or(const nlohmann::json& object, const char* key, Value fallback, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  return get<Value>(object, key, place);
}

}  // namespace finetune
