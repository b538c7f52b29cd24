#include "metric_names.h"

#include <algorithm>

namespace finetune::config {

const std::vector<std::string>& metric_names(TaskType task) {
  static const std::vector<std::string> of_classes{"loss",
                                                   "accuracy",
                                                   "macro_f1",
                                                   "matthews_correlation",
                                                   "micro_f1",
                                                   "weighted_f1",
                                                   "micro_precision",
                                                   "macro_precision",
                                                   "weighted_precision",
                                                   "micro_recall",
                                                   "macro_recall",
                                                   "weighted_recall",
                                                   "auc"};
  static const std::vector<std::string> of_several{
      "loss",         "accuracy",        "macro_f1",        "micro_f1",
      "weighted_f1",  "micro_precision", "macro_precision", "weighted_precision",
      "micro_recall", "macro_recall",    "weighted_recall", "auc"};
  static const std::vector<std::string> of_values{"loss", "mse", "mae", "pearson", "spearman"};
  static const std::vector<std::string> of_hidden_tokens{"loss", "perplexity", "accuracy"};
  static const std::vector<std::string> of_items = [] {
    std::vector<std::string> names = of_classes;
    names.insert(names.end(), {"precision", "recall", "f1"});
    return names;
  }();
  switch (task) {
    case TaskType::kMultiLabelClassification:
      return of_several;
    case TaskType::kRegression:
      return of_values;
    case TaskType::kTokenClassification:
      return of_items;
    case TaskType::kMaskedLm:
      return of_hidden_tokens;
    default:
      return of_classes;
  }
}

std::vector<std::string> metric_names() {
  std::vector<std::string> all;
  for (const TaskType task : {TaskType::kSequenceClassification, TaskType::kMultiLabelClassification,
                              TaskType::kRegression, TaskType::kTokenClassification, TaskType::kMaskedLm}) {
    for (const std::string& name : metric_names(task)) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
  }
  return all;
}

}  // namespace finetune::config
