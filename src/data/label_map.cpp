#include "finetune/data/label_map.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "finetune/core/error.h"

namespace finetune {
namespace {

std::optional<int64_t> as_integer(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

LabelMap::LabelMap(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) {
      throw ConfigError("label " + std::to_string(i) +
                        " is empty, expected a name; remove it from task.labels");
    }
    const auto [place, inserted] = ids_.emplace(names_[i], static_cast<int64_t>(i));
    if (!inserted) {
      throw ConfigError("label '" + names_[i] + "' occurs twice (as " + std::to_string(place->second) +
                        " and " + std::to_string(i) +
                        "), expected different names; remove one from task.labels");
    }
  }
}

LabelMap LabelMap::learn(const StringColumn& labels, int64_t ignore_index) {
  LabelMap seen;
  for (const std::string& label : labels) {
    if (!label.empty() && seen.ids_.try_emplace(label, 0).second) seen.names_.push_back(label);
  }
  const bool may_be_class = ignore_index >= 0 && ignore_index < static_cast<int64_t>(seen.names_.size());
  if (!may_be_class) std::erase(seen.names_, std::to_string(ignore_index));
  std::vector<std::pair<int64_t, std::string>> numbered;
  for (const std::string& name : seen.names_) {
    const auto number = as_integer(name);
    if (number) numbered.emplace_back(*number, name);
  }
  const bool numeric = numbered.size() == seen.names_.size();
  if (!numeric) {
    std::sort(seen.names_.begin(), seen.names_.end());
    return LabelMap(std::move(seen.names_));
  }
  std::sort(numbered.begin(), numbered.end());
  std::vector<std::string> names;
  for (auto& [number, name] : numbered) names.push_back(std::move(name));
  return LabelMap(std::move(names));
}

std::optional<int64_t> LabelMap::id(std::string_view name) const {
  const auto place = ids_.find(name);
  if (place == ids_.end()) return std::nullopt;
  return place->second;
}

}  // namespace finetune
