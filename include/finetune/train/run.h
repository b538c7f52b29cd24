#pragma once

#include <set>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune {

/// What to do with what a run folder already holds.
struct RunOptions {
  /// `never`: refuse a folder that has results. `auto`: go on from the newest good checkpoint, or start anew.
  /// Else a path to go on from: a checkpoint folder, or a .pth of a Python script.
  std::string resume = "never";
  bool overwrite = false;                 ///< delete what the run folder holds and start anew
  std::vector<std::string> allow_change;  ///< "batch_size", "data": resume though it differs
  bool quiet = false;                     ///< no progress
  /// JSON pointers of the keys that the user set: these win over what a .pth says of its optimizer.
  std::set<std::string> given_keys;
};

/// Trains as `config` says and returns what RUN/summary.json holds. Everything (model, optimizer, data) is
/// created on the device inside. Throws `Error`; on SIGINT or SIGTERM the state is saved first and
/// `Interrupted` thrown.
Json run(const RunConfig& config, const RunOptions& options);

}  // namespace finetune
