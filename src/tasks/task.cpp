#include "finetune/tasks/task.h"

#include "finetune/core/error.h"
#include "sequence_classification.h"

namespace finetune {

std::unique_ptr<Task> make_task(const TaskConfig& config, LabelMap labels) {
  switch (config.type) {
    case TaskType::kSequenceClassification:
      return make_sequence_classification(config, std::move(labels));
  }
  throw ConfigError("task.type is not known");
}

std::string task_name(TaskType type) {
  switch (type) {
    case TaskType::kSequenceClassification:
      return "sequence_classification";
  }
  return "";
}

}  // namespace finetune
