#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "finetune/config/describe.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"

namespace finetune::cli {
namespace {

struct ConfigOptions {
  enum class Action { kPrint, kSchema, kValidate };
  Action action = Action::kPrint;
  std::filesystem::path file;          ///< unused by kSchema
  std::vector<std::string> overrides;  ///< of `--set`, each KEY=VALUE
  bool comments = false;
};

void print(const Json& json) {
  // A path may hold bytes that are no UTF-8; printing it must not fail.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

/// Problems in the file are thrown as `ConfigError`.
int run_config(const ConfigOptions& options) {
  switch (options.action) {
    case ConfigOptions::Action::kPrint: {
      const RunConfig config = load_run_config(options.file, options.overrides);
      if (options.comments) {
        std::cout << commented_config(config);
      } else {
        print(to_json(config));
      }
      break;
    }
    case ConfigOptions::Action::kSchema:
      print(config_schema());
      break;
    case ConfigOptions::Action::kValidate:
      load_run_config(options.file, options.overrides);
      std::cout << options.file.string() << ": valid\n";
      break;
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConfigOptions>();
  CLI::App* command = app.add_subcommand("config", "Print, check or describe config files");
  auto* what = command->add_option_group("what")->require_option(1);
  const auto chosen = [options](ConfigOptions::Action chosen_action) {
    return [options, chosen_action](const std::string& file) {
      options->action = chosen_action;
      options->file = file;
    };
  };
  what->add_option_function<std::string>("--print", chosen(ConfigOptions::Action::kPrint),
                                         "FILE: the resolved config, every key with the value in force; on a "
                                         "terminal with a comment on each");
  what->add_option_function<std::string>("--validate", chosen(ConfigOptions::Action::kValidate),
                                         "FILE: all problems in it at once");
  what->add_flag_callback(
      "--schema", [options] { options->action = ConfigOptions::Action::kSchema; },
      "JSON Schema of config files");
  command->add_option("--set", options->overrides, "KEY=VALUE: override a key of the config")
      ->allow_extra_args(false);
  // Programs read what goes into a pipe, and most of them know no comments.
  options->comments = ::isatty(STDOUT_FILENO) == 1;
  command->add_flag("--comments,!--no-comments", options->comments,
                    "--print: what each key means, and its default; the loader takes the comments");
  command->callback([options, &action] { action = [options] { return run_config(*options); }; });
}

}  // namespace finetune::cli
