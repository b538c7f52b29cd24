#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "finetune/core/json.h"

namespace finetune {

/// Accumulates, on the device, all that the metrics of single-label classification need. Memory does not grow
/// with rows.
class ClassificationMeter {
 public:
  ClassificationMeter(int64_t num_labels, int64_t ignore_index, c10::Device device);

  /// loss_sum [] float32; logits [B, C] float32; labels [B] int64; label_weight: of these rows, known on the
  /// host.
  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight);

  /// `loss`, `accuracy`, `macro_f1`, `matthews_correlation`, `confusion` ([C][C], rows are gold). Waits for
  /// the device once.
  Json drain();

 private:
  int64_t num_labels_;
  int64_t ignore_index_;
  double label_weight_ = 0;
  at::Tensor loss_;       ///< [1] float64
  at::Tensor confusion_;  ///< [C * C + 1] int64; the last one counts ignored rows
};

/// Figures of a confusion matrix (rows gold, columns predicted), as scikit-learn defines them; a ratio with
/// nothing below the line is 0.
Json classification_metrics(const std::vector<std::vector<int64_t>>& confusion);

}  // namespace finetune
