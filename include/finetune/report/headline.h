#pragma once

#include <string>
#include <utility>
#include <vector>

#include "finetune/core/json.h"

namespace finetune {

/// The metrics of an evaluation that people look at first, whichever its task has, with their titles.
std::vector<std::pair<std::string, std::string>> main_metrics(const Json& metrics);

/// "loss 0.2100, accuracy 0.9312, macro F1 0.9120".
std::string headline(const Json& metrics);

}  // namespace finetune
