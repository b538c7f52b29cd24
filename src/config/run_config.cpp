#include "finetune/config/run_config.h"

namespace finetune {

LabelShape label_shape(TaskType task) {
  switch (task) {
    case TaskType::kMultiLabelClassification:
      return LabelShape::kClasses;
    case TaskType::kRegression:
      return LabelShape::kValue;
    case TaskType::kTokenClassification:
      return LabelShape::kItems;
    case TaskType::kMaskedLm:
      return LabelShape::kNone;
    default:
      return LabelShape::kClass;
  }
}

}  // namespace finetune
