#pragma once

#include <optional>
#include <string>

#include "finetune/checkpoint/store.h"
#include "finetune/train/inputs.h"
#include "finetune/train/run.h"

namespace finetune {

/// What a checkpoint remembers of the run it belongs to, so that a resume can tell whether it still is that
/// run.
struct RunIdentity {
  int64_t num_steps = 0;
  int64_t batch_size = 0;
  std::string task;
  std::string precision;
  std::string data;  ///< fingerprint of the encoded training rows
  Json labels;
  Json environment;  ///< threads, instruction set, device: a change is said, since it changes the last bits
  Json config;       ///< resolved
};

RunIdentity identify(const RunConfig& config, const Inputs& inputs, int64_t num_steps,
                     const std::string& precision, const Json& environment);
/// The precision a checkpoint's state was made with.
std::optional<std::string> saved_precision(const std::optional<VerifiedCheckpoint>& checkpoint);
Json to_json(const RunIdentity& identity);

/// Compares. Throws `ConfigError` for a changed batch size, task or data that `options` does not allow; logs
/// the rest: a new number of steps, other threads or device, and each config key that differs.
void check_resume(const Json& saved, const RunIdentity& now, const RunOptions& options);

}  // namespace finetune
