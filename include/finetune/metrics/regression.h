#pragma once

#include "finetune/metrics/meter.h"

namespace finetune {

/// Metrics of predicted numbers. Ranks need every number, so answers and labels stay on the device: 8 bytes a
/// row.
class RegressionMeter : public Meter {
 public:
  explicit RegressionMeter(c10::Device device) : loss_(device) {}

  /// logits and labels [B, 1]; a label that is undefined (NaN) is left out.
  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight) override;

  /// `loss`, `mse`, `mae`, `pearson`, `spearman`; a correlation with what does not vary is 0.
  Json drain() override;

 private:
  LossMean loss_;
  Collected pairs_;  ///< [rows, 2] float32: answers and labels
};

}  // namespace finetune
