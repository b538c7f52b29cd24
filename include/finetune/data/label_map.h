#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "finetune/core/string_column.h"

namespace finetune {

/// Class names and their ids, in id order. Learned from training data once, saved with the model, and reused
/// by evaluation and prediction.
class LabelMap {
 public:
  LabelMap() = default;
  /// Ids are positions. Throws `ConfigError` if a name is empty or occurs twice.
  explicit LabelMap(std::vector<std::string> names);

  /// The map of the distinct `labels`: numeric order where all are integers, else byte order. Empty strings
  /// are rows without a label and are passed over.
  /// `ignore_index` in digits is no class where it cannot be the id of one.
  static LabelMap learn(const StringColumn& labels, int64_t ignore_index = -100);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(int64_t id) const { return names_.at(static_cast<size_t>(id)); }
  std::optional<int64_t> id(std::string_view name) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

}  // namespace finetune
