#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "finetune/core/json.h"
#include "finetune/metrics/meter.h"

namespace finetune {

/// Accumulates all that the metrics of single-label classification need. Memory does not grow with rows, but
/// for two classes, whose area under the ROC curve needs 16 bytes a label on the device.
class ClassificationMeter : public Meter {
 public:
  /// names: of the classes, for the table of them; none: there is no table.
  ClassificationMeter(int64_t num_labels, int64_t ignore_index, c10::Device device,
                      std::vector<std::string> names = {});

  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight) override;

  /// `loss`, those of `classification_metrics`, `auc` for two classes that both occur, `per_class`, and
  /// `confusion` ([C][C], rows are gold).
  Json drain() override;

 private:
  int64_t num_labels_;
  int64_t ignore_index_;
  std::vector<std::string> names_;
  LossMean loss_;
  at::Tensor confusion_;  ///< [C * C + 1] int64; the last one counts ignored rows
  Collected scores_;      ///< [L, 2] float64: score of the second class against the first, and label
};

/// Figures of a confusion matrix (rows gold, columns predicted), as scikit-learn defines them; a ratio with
/// nothing below the line is 0: `accuracy`, `matthews_correlation`, and precision, recall and F1 with
/// `micro_`, `macro_` and `weighted_`, over the classes that occur or are predicted.
Json classification_metrics(const std::vector<std::vector<int64_t>>& confusion);

/// {"precision", "recall", "f1", "support"} from what was found rightly, predicted and there.
Json class_scores(int64_t hits, int64_t predicted, int64_t gold);

/// How often a class was found rightly, said to hold, and held.
struct ClassCounts {
  int64_t hits = 0, predicted = 0, gold = 0;
};

/// The `micro_`, `macro_` and `weighted_` averages of precision, recall and F1. The macro averages are over
/// all classes with `absent_count`, else over those that occur or are predicted.
Json averaged_scores(const std::vector<ClassCounts>& classes, bool absent_count);

}  // namespace finetune
