#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"

namespace finetune {

/// `config` with the optimizer settings of a Python run for the keys that the user did not set (`given`, JSON
/// pointers). Says each setting that is taken over and each that the config overrules. Throws `ConfigError`
/// where parameters have settings that one optimizer section cannot express.
RunConfig adopt_settings(const RunConfig& config, const PythonCheckpoint& checkpoint,
                         const std::set<std::string>& given);

/// The same for a run that began so and is resumed from its own checkpoint, whose saved `state` has what was
/// adopted.
RunConfig keep_adopted_settings(const RunConfig& config, const Json& state,
                                const std::set<std::string>& given);

/// Fills weights, moments and step counters in place, on their device. Returns what `convert` needs to give
/// the state back to the script: the name in the file of each parameter, and the optimizer's groups. Throws
/// `CheckpointError`.
Json restore_python(const PythonCheckpoint& checkpoint, const RunConfig& config, const Classifier& model,
                    const Optimizer& optimizer);

}  // namespace finetune
