#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "finetune/train/model_directory.h"

namespace finetune {

/// One answered row.
struct Prediction {
  const Row& row;
  Json answer;          ///< see Task::answer
  const float* logits;  ///< [num_labels]
};

/// Answers rows in the order they come, a bounded number of them in memory at a time.
/// `next` fills a row or returns false at the end; `sink` receives every row once, in order.
void predict(const TrainedModel& trained, c10::Device device, const std::function<bool(Row&)>& next,
             const std::function<void(const Prediction&)>& sink);

/// Collects [rows, columns] float32 and writes them as a NumPy file.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, int64_t num_columns);
  void append(const float* row);
  /// Writes the file. Must be called.
  void close();

 private:
  std::string header() const;

  std::filesystem::path path_;
  std::vector<float> values_;
  int64_t num_columns_;
};

}  // namespace finetune
