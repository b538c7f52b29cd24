#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace finetune {

/// Class names and their ids, in id order. Learned from training data once, saved with the model, and reused by
/// evaluation and prediction.
class LabelMap {
 public:
  LabelMap() = default;
  /// Ids are positions. Throws `ConfigError` if a name occurs twice.
  explicit LabelMap(std::vector<std::string> names);

  /// The map of the distinct `labels`: numeric order where all are integers, else byte order.
  static LabelMap learn(const std::vector<std::string>& labels);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(int64_t id) const { return names_.at(static_cast<size_t>(id)); }
  std::optional<int64_t> id(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace finetune
