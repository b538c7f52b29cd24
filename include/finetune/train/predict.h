#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "finetune/core/file.h"
#include "finetune/data/row_reader.h"
#include "finetune/train/model_directory.h"

namespace finetune {

/// One answered row.
struct Prediction {
  const Row& row;
  Json answer;  ///< see Task::answer
  RowLogits logits;
};
using PredictionSink = std::function<void(const Prediction&)>;

/// Answers every row of `reader`, in order, a bounded number of them in memory at a time.
void predict(const TrainedModel& trained, c10::Device device, RowReader& reader, const PredictionSink& sink);

/// The same for rows with labels, and the task's metrics over all of them.
/// Throws `DataError` for a label that training never saw.
Json evaluate_rows(const TrainedModel& trained, c10::Device device, RowReader& reader,
                   const PredictionSink& sink);

/// Writes [rows, columns] float32 as a NumPy file, row by row; where items are answered, a line an item, of
/// NaN for one without a token. Throws `std::system_error`, also for a pipe: the number of rows stands at the
/// beginning of the file, and is known at the end.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, int64_t num_columns);
  void append(const RowLogits& logits);
  /// Completes the file. Must be called.
  void close();

 private:
  void append_line(const float* line);
  std::string header() const;
  void flush();

  std::filesystem::path path_;
  OutputFile file_;
  std::vector<float> values_;  ///< not written yet
  int64_t num_rows_ = 0;
  int64_t num_columns_;
};

}  // namespace finetune
