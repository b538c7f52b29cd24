#pragma once

#include <optional>
#include <string>

#include "finetune/config/run_config.h"
#include "finetune/doctor/probe.h"
#include "finetune/doctor/report.h"

namespace finetune::doctor {

struct Options {
  std::optional<RunConfig> config;  ///< the job to examine beside the machine
  std::string device = "auto";      ///< as in a config; the config's wins
  int64_t threads = 0;              ///< as in a config; the config's wins
};

/// Examines the machine and, with a config, rehearses a few of its steps on each device that can be used.
/// Takes some 20 seconds at most, writes nothing but stderr. A device that cannot be used is a finding, not
/// an error; throws `Error` where config, data or model files are at fault.
Report examine(const Options& options, const Probe& probe);

}  // namespace finetune::doctor
