#pragma once

#include "finetune/metrics/meter.h"

namespace finetune {

/// Of hidden tokens: `loss`, `perplexity` (its exponential), and `accuracy`, how many are answered right.
class LanguageModelMeter final : public Meter {
 public:
  explicit LanguageModelMeter(c10::Device device);
  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight) override;
  Json drain() override;

 private:
  LossMean loss_;
  double num_labels_ = 0;
  at::Tensor hits_;  ///< [] int64
};

}  // namespace finetune
