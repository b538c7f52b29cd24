#include "finetune/tasks/task.h"

#include <array>

#include "finetune/core/error.h"
#include "tasks.h"

namespace finetune {
namespace {

void check_weights(const LabelWeights& weights, const char* key, const LabelMap& labels) {
  const bool resolved = !weights.balanced && weights.by_label.empty();
  if (!resolved ||
      (!weights.values.empty() && static_cast<int64_t>(weights.values.size()) != labels.size())) {
    throw ConfigError(std::string("task.") + key + ": found " + std::to_string(weights.values.size()) +
                      " weights for " + std::to_string(labels.size()) + " labels; expected one for each");
  }
}

constexpr std::array kTaskTypes{TaskType::kSequenceClassification, TaskType::kMultiLabelClassification,
                                TaskType::kRegression, TaskType::kTokenClassification, TaskType::kMaskedLm};

}  // namespace

std::unique_ptr<Task> make_task(const TaskConfig& config, LabelMap labels, const DataConfig& data,
                                const Tokenizer* tokenizer) {
  check_weights(config.class_weights, "class_weights", labels);
  check_weights(config.pos_weight, "pos_weight", labels);
  switch (config.type) {
    case TaskType::kSequenceClassification:
      return make_sequence_classification(config, std::move(labels));
    case TaskType::kMultiLabelClassification:
      return make_multi_label_classification(config, std::move(labels));
    case TaskType::kRegression:
      return make_regression(config, std::move(labels));
    case TaskType::kTokenClassification:
      return make_token_classification(config, std::move(labels), item_kind(data));
    case TaskType::kMaskedLm:
      TORCH_CHECK(tokenizer != nullptr, "masked_lm needs the tokenizer");
      return make_masked_lm(config, *tokenizer);
  }
  throw ConfigError("task.type is not known");
}

std::vector<std::string> fixed_labels(TaskType type) {
  if (type == TaskType::kRegression) return {"value"};
  return {};
}

std::string task_name(TaskType type) {
  switch (type) {
    case TaskType::kSequenceClassification:
      return "sequence_classification";
    case TaskType::kMultiLabelClassification:
      return "multi_label_classification";
    case TaskType::kRegression:
      return "regression";
    case TaskType::kTokenClassification:
      return "token_classification";
    case TaskType::kMaskedLm:
      return "masked_lm";
  }
  return "";
}

std::optional<TaskType> task_type(const std::string& name) {
  for (const TaskType type : kTaskTypes) {
    if (task_name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace finetune
