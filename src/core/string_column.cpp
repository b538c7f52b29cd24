#include "finetune/core/string_column.h"

namespace finetune {

void StringColumn::push_back(std::string_view value) {
  const auto place = places_.find(value);
  if (place != places_.end()) {
    indices_.push_back(place->second);
    return;
  }
  const auto index = static_cast<uint32_t>(strings_.size());
  strings_.emplace_back(value);
  if (places_.size() < kMostShared) places_.emplace(strings_.back(), index);
  indices_.push_back(index);
}

void StringColumn::append(const StringColumn& other) {
  for (const std::string& value : other) push_back(value);
}

void StringColumn::resize(size_t count) {
  while (size() < count) push_back("");
}

}  // namespace finetune
