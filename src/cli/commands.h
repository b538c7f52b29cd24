#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "finetune/core/log.h"

namespace finetune::cli {

/// What the chosen subcommand does; set while the command line is parsed, called by main. Returns the exit
/// code.
using Action = std::function<int()>;

/// Flags that every subcommand has.
struct CommonFlags {
  bool quiet = false;
  bool verbose = false;

  Verbosity verbosity() const {
    return quiet ? Verbosity::kQuiet : verbose ? Verbosity::kVerbose : Verbosity::kNormal;
  }
};

/// Each adds its subcommand, with flags and help, to `app`. One file a subcommand.
void add_train(CLI::App& app, const CommonFlags& common, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_init(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);

}  // namespace finetune::cli
