#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"

namespace finetune {

/// Reads a config file, applies overrides `a.b=value` (the value is JSON, or a bare string; `null` unsets)
/// and validates the whole. Relative paths in the file are taken from the file's folder, those in overrides
/// from the working directory; the result holds absolute paths.
///
/// Throws `ConfigError` with every problem found, a line each: file and JSON pointer, what was found, what
/// was expected, and the nearest known key for an unknown one.
RunConfig load_run_config(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// A config and the keys that it sets itself, as JSON pointers ("/optimizer/learning_rate"): the others have
/// their defaults, or were unset by `null`.
struct LoadedConfig {
  RunConfig config;
  std::set<std::string> given;
};

/// `load_run_config` where it matters which keys were set.
LoadedConfig load_config_and_keys(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides);

/// The same for a config that is already JSON (a saved run's); relative paths are taken from `base`.
RunConfig parse_run_config(const Json& json, const std::filesystem::path& base);

/// The resolved config: every key with the value in force. `parse_run_config(to_json(c))` equals `c`.
Json to_json(const RunConfig& config);

/// JSON Schema (draft 2020-12) of the config file: every key with its type, default and description.
Json config_schema();

}  // namespace finetune
