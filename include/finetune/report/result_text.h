#pragma once

#include <string>
#include <vector>

#include "finetune/core/json.h"

namespace finetune {

/// A line a split (or a file of one) under the titles of its main metrics. metrics: summary.json's, by split.
/// Empty where nothing was evaluated.
std::string metrics_table(const Json& metrics);

/// A confusion matrix as text of at most `width` columns: a line a label, counts of answers across, or, where
/// that has no room, the most frequent mistakes. confusion: [C][C] counts, by label and answer. Empty where
/// there are no labels.
std::string confusion_text(const Json& confusion, const std::vector<std::string>& labels, int width);

}  // namespace finetune
