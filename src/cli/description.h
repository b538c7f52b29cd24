#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace finetune::cli {

/// What stands behind an option: how a shell completes it.
enum class ValueKind { kNone, kWord, kChoice, kFile, kDirectory, kConfigKey };

/// An option, flag or positional argument as the command line knows it.
struct OptionDescription {
  std::vector<std::string> names;  ///< with their dashes; empty: positional
  std::string value;               ///< "FILE", "KEY=VALUE"; empty for flags
  std::string help;
  std::string default_value;
  std::vector<std::string> choices;
  ValueKind kind = ValueKind::kNone;
  bool required = false;
  bool repeatable = false;

  bool positional() const { return names.empty(); }
};

struct CommandDescription {
  std::string name;
  std::string help;
  std::vector<OptionDescription> options;
};

/// The command line as `app` knows it: what shells and the manual are told comes from here alone.
struct ProgramDescription {
  std::string name, help, version;
  std::vector<OptionDescription> options;  ///< of every command
  std::vector<CommandDescription> commands;
};

ProgramDescription describe_program(const CLI::App& app);

/// Scripts for the completion of bash, zsh and fish, and a manual page in the man macros of troff.
std::string bash_completion(const ProgramDescription& program);
std::string zsh_completion(const ProgramDescription& program);
std::string fish_completion(const ProgramDescription& program);
std::string manual_page(const ProgramDescription& program);

}  // namespace finetune::cli
