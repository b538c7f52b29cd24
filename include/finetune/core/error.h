#pragma once

#include <stdexcept>
#include <string>

namespace finetune {

/// What the process ends with. Scripts and schedulers branch on these, so a number never changes its meaning.
enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,    ///< a bug of ours
  kUsage = 2,       ///< command line, config, or a run folder that is locked or already holds a run
  kData = 3,        ///< a row, a file of rows, a label
  kCheckpoint = 4,  ///< checkpoint, weights or tokenizer files
  kDevice = 5,      ///< the device cannot be used, or is out of memory
  kDiverged = 6,    ///< the loss is no longer finite
  kInterrupted = 130,
  kTerminated = 143,
};

/// Base of every error a user can cause. The message names the place, what was found, what was expected and
/// the remedy; `cli/main.cpp` prints it and exits with `exit_code()`.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(ExitCode::kCheckpoint, message) {}
};

class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ExitCode::kDevice, message) {}
};

class DivergenceError : public Error {
 public:
  explicit DivergenceError(const std::string& message) : Error(ExitCode::kDiverged, message) {}
};

/// Thrown at a safe point after SIGINT or SIGTERM, once the state is saved.
class Interrupted : public Error {
 public:
  Interrupted(ExitCode code, const std::string& message) : Error(code, message) {}
};

}  // namespace finetune
