#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "finetune/data/row_reader.h"
#include "finetune/train/model_directory.h"

namespace finetune {

/// One answered row.
struct Prediction {
  const Row& row;
  Json answer;          ///< see Task::answer
  const float* logits;  ///< [num_labels]
};
using PredictionSink = std::function<void(const Prediction&)>;

/// Answers every row of `reader`, in order, a bounded number of them in memory at a time.
void predict(const TrainedModel& trained, c10::Device device, RowReader& reader, const PredictionSink& sink);

/// The same for rows with labels, and the task's metrics over all of them.
/// Throws `DataError` for a label that training never saw.
Json evaluate_rows(const TrainedModel& trained, c10::Device device, RowReader& reader,
                   const PredictionSink& sink);

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
