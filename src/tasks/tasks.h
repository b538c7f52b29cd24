#pragma once

#include "finetune/data/encoded_dataset.h"
#include "finetune/tasks/task.h"

namespace finetune {

std::unique_ptr<Task> make_sequence_classification(const TaskConfig& config, LabelMap labels);
std::unique_ptr<Task> make_multi_label_classification(const TaskConfig& config, LabelMap labels);
std::unique_ptr<Task> make_regression(const TaskConfig& config, LabelMap labels);
/// items: what in a row has a label.
std::unique_ptr<Task> make_token_classification(const TaskConfig& config, LabelMap labels, ItemKind items);
std::unique_ptr<Task> make_masked_lm(const TaskConfig& config, const Tokenizer& tokenizer);

}  // namespace finetune
