#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// An answer that a person may want to see.
struct Answer {
  int64_t index = 0;     ///< of its label among all
  double gold = 0;       ///< the class; whether the class holds (0 or 1); the number
  double predicted = 0;  ///< the class; the class that is meant; the number
  double score = 0;      ///< probability of what was predicted, or that the class holds; 0 of numbers
  double error =
      0;  ///< -log of the gold class's probability; distance of the score, or number, from the gold
};

/// How often answers of about the same probability are right.
struct CalibrationBin {
  int64_t count = 0;
  double score = 0;  ///< mean probability
  double right = 0;  ///< fraction that is right (a class that holds, where there may be several)
};

struct AnswerSummary {
  std::vector<Answer> worst;                ///< by error, the largest first
  std::vector<Answer> confident;            ///< wrong answers by score, the largest first; none of numbers
  std::vector<CalibrationBin> calibration;  ///< of equal widths from 0 to 1; none of numbers
};

/// What a report shows of an evaluation beside its metrics. Keeps a fixed number of answers on the device,
/// however many there are.
class AnswerMeter {
 public:
  /// threshold: probability from which on a class holds, where there may be several.
  AnswerMeter(LabelShape shape, int64_t ignore_index, double threshold, c10::Device device);

  /// logits [L, C] float32; labels [L] int64, or [L, C] float32 of 0 and 1, or of numbers. Does not wait for
  /// the device.
  void add(const at::Tensor& logits, const at::Tensor& labels);

  /// Waits for the device.
  AnswerSummary drain() const;

 private:
  /// Columns of answers, each [L] float64, and the probabilities and outcomes that calibration counts.
  struct Judged {
    at::Tensor gold, predicted, score, error, wrong, known;
    at::Tensor probability, outcome;
  };
  Judged judge_classes(const at::Tensor& logits, const at::Tensor& labels) const;
  Judged judge_label_sets(const at::Tensor& logits, const at::Tensor& labels) const;
  Judged judge_values(const at::Tensor& logits, const at::Tensor& labels) const;
  void calibrate(const at::Tensor& probability, const at::Tensor& outcome, const at::Tensor& known);

  LabelShape shape_;
  int64_t ignore_index_;
  double threshold_;
  int64_t num_labels_ = 0;
  at::Tensor worst_, confident_;  ///< [<= K, 6] float64: key, index, gold, predicted, score, error
  at::Tensor bins_;               ///< [3, kBins] float64: count, sum of probabilities, sum of outcomes
};

}  // namespace finetune
