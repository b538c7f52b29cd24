#pragma once

#include <string>

#include "finetune/config/run_config.h"
#include "finetune/tasks/task.h"

namespace finetune {

/// README.md of a model directory: what it is, how it was trained, what it reaches, how to use it.
std::string model_card(const RunConfig& config, const Task& task, const Json& metrics);

}  // namespace finetune
