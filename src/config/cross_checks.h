#pragma once

#include <string>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune::config {

/// Values that are sound alone and wrong together.
struct Conflict {
  std::vector<std::string>
      pointers;  ///< the values concerned; the message is about the first that was written
  std::string message;
};

std::vector<Conflict> find_conflicts(const RunConfig& config);

}  // namespace finetune::config
