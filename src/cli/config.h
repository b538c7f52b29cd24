#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace finetune::cli {

/// Options of `finetune config`.
struct ConfigOptions {
  enum class Action { kPrint, kSchema, kValidate };
  Action action = Action::kPrint;
  std::filesystem::path file;          ///< unused by kSchema
  std::vector<std::string> overrides;  ///< of `--set`, each KEY=VALUE
};

/// Prints the resolved config, the JSON Schema, or "FILE: valid" on stdout. Returns the exit code; problems
/// in the file are thrown as `ConfigError`.
int run_config(const ConfigOptions& options);

}  // namespace finetune::cli
