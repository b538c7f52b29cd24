#pragma once

#include "finetune/tasks/task.h"

namespace finetune {

/// One of C classes a row: cross-entropy with optional label smoothing, as torch.nn.functional.cross_entropy
/// defines it.
std::unique_ptr<Task> make_sequence_classification(const TaskConfig& config, LabelMap labels);

}  // namespace finetune
