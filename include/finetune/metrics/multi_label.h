#pragma once

#include <string>
#include <vector>

#include "finetune/metrics/meter.h"

namespace finetune {

/// Metrics of rows with any number of classes. Counts do not grow with rows; the areas under the ROC curves
/// need every score, which stay on the device: 8 bytes a row and class.
class MultiLabelMeter : public Meter {
 public:
  /// threshold: logit from which on a class is said to hold.
  MultiLabelMeter(std::vector<std::string> names, double threshold, c10::Device device);

  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight) override;

  /// `loss`, `accuracy` (rows all of whose classes are right), precision, recall and F1 averaged over all
  /// classes, `auc` (the mean of those of classes that hold for some rows and not for others) and
  /// `per_class`.
  Json drain() override;

 private:
  std::vector<std::string> names_;
  double threshold_;
  LossMean loss_;
  at::Tensor counts_;  ///< [3 * C + 2] int64: hits, predicted, gold of each class; rows all right; rows
  Collected scores_;   ///< [rows, 2, C] float32: logits and labels
};

}  // namespace finetune
