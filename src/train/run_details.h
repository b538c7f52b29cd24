#pragma once

#include <filesystem>

#include "finetune/metrics/answers.h"
#include "finetune/train/inputs.h"

namespace finetune {

/// RUN/details.json, what the report shows of a run beside its log and its summary. Its size does not grow
/// with the rows.
///
///     {"data": {split: {"rows", "tokens", "truncated",
///                       "lengths": {"width": w, "counts": [rows of 1..w tokens, of w+1..2w, ...]},
///                       "labels": {name: count, ...}, or of numbers
///                       "values": {"first": least, "width": w, "counts": [...]}}},
///      "evaluations": {split: {"kind": "classes" | "label_sets" | "values",
///                              "calibration": [{"count", "score", "right"}, ...] of ten equal widths,
///                              "worst": [answer, ...], "confident": [answer, ...]}}}
///
/// An answer is {"row" (from 0), "item" (where items are labelled), "file", "line", "text", "text_pair",
/// "gold", "predicted", "score", "error"}; of label sets, where it is about one class of the row, "label"
/// names that class and gold says whether it holds. `worst` are those with the largest error, `confident`
/// those that are wrong with the highest score. A text is cut to about 600 bytes; it is missing where the
/// rows cannot be found again.
class RunDetails {
 public:
  /// Describes the splits. Nothing is written yet.
  RunDetails(std::filesystem::path folder, const RunConfig& config, const Inputs& inputs);

  /// What collects answers of an evaluation of this run.
  AnswerMeter make_meter(c10::Device device) const;

  /// Takes in what came out. split: the part of the data ("validation" or "test"); name: of the rows in it.
  void add_evaluation(const std::string& split, const std::string& name, const DeviceDataset& rows,
                      const AnswerSummary& answers);

  /// Replaces the file.
  void write() const;

 private:
  std::filesystem::path folder_;
  const RunConfig& config_;
  const Inputs& inputs_;
  Json content_;
};

}  // namespace finetune
