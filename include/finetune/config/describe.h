#pragma once

#include <string>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune {

/// The resolved config as a config file with a comment on each key: what it means, and its default where the
/// value is another one. The loader takes it.
std::string commented_config(const RunConfig& config);

/// JSON as people write a config: a section a line each of its keys, lists and what is deeper on one line.
std::string config_text(const Json& config);

}  // namespace finetune
