#pragma once

#include <string>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune::config {

/// The metrics by which a task's best checkpoint may be chosen: names in its `eval` events.
const std::vector<std::string>& metric_names(TaskType task);

/// Those of all tasks.
std::vector<std::string> metric_names();

}  // namespace finetune::config
