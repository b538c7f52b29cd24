#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "commands.h"
#include "finetune/core/error.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/core/version.h"

namespace finetune::cli {
namespace {

/// `train` is the default subcommand: `finetune --config X` is `finetune train --config X`.
std::vector<std::string> with_default_subcommand(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto is_common = [](const std::string& a) { return a == "--quiet" || a == "--verbose"; };
  const auto is_global = [](const std::string& a) { return a == "-h" || a == "--help" || a == "--version"; };
  const auto first = std::find_if_not(arguments.begin(), arguments.end(), is_common);
  if (first != arguments.end() && first->starts_with('-') && !is_global(*first)) {
    arguments.insert(arguments.begin(), "train");
  }
  return arguments;
}

/// What is wrong with a command line. An unknown word is named before what is missing because of it.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return error.what();
  const std::string& word = unknown.front();
  const bool is_flag = word.starts_with('-');
  std::vector<std::string> known;
  if (is_flag) {
    std::vector<const CLI::App*> parsed{&app};
    for (const CLI::App* command : app.get_subcommands()) parsed.push_back(command);
    for (const CLI::App* command : parsed) {
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    }
  } else {
    for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  }
  const auto near = nearest_name(word.substr(0, word.find('=')), known);
  return std::string(is_flag ? "unknown flag '" : "unknown word '") + word + "'" +
         (near ? "; did you mean '" + *near + "'?" : "; known here: " + join_some(known, known.size()));
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Fine-tunes BERT-style encoders for classification.", "finetune");
  app.set_version_flag("--version", std::string("finetune ") + FINETUNE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  CommonFlags common;
  app.add_flag("--quiet", common.quiet, "Print errors and results only");
  app.add_flag("--verbose", common.verbose, "Print more, with times");
  Action action;
  add_train(app, common, action);
  add_eval(app, action);
  add_predict(app, action);
  add_tokenize(app, action);
  add_config(app, action);
  add_convert(app, action);
  add_doctor(app, action);
  add_report(app, action);
  add_init(app, action);
  add_inspect(app, action);
  add_completion(app, action);

  std::vector<std::string> arguments = with_default_subcommand(argc, argv);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    std::fprintf(stderr, "%s\nRun finetune --help, or finetune COMMAND --help, for what there is.\n",
                 usage_problem(app, error).c_str());
    return static_cast<int>(ExitCode::kUsage);
  }
  configure_logging(common.verbosity());
  install_signal_handlers();
  return action();
}

/// A message may hold several problems, a line each.
int fail(const std::string& message, ExitCode code) {
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) spdlog::error("{}", line);
  return static_cast<int>(code);
}

bool is_no_space(const std::error_code& code) {
  return code == std::errc::no_space_on_device || code == std::error_code(EDQUOT, std::generic_category());
}

}  // namespace
}  // namespace finetune::cli

// The one place where errors become exit codes.
int main(int argc, char** argv) {
  using finetune::ExitCode;
  using finetune::cli::fail;
  try {
    return finetune::cli::parse_and_run(argc, argv);
  } catch (const finetune::Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return fail("out of memory; lower train.micro_batch_size or data.max_length", ExitCode::kDevice);
  } catch (const c10::OutOfMemoryError& error) {
    return fail(
        std::string(error.what_without_backtrace()) + "; lower train.micro_batch_size or data.max_length",
        ExitCode::kDevice);
  } catch (const std::system_error& error) {
    const char* remedy =
        finetune::cli::is_no_space(error.code()) ? "; free some space and resume with --resume auto" : "";
    return fail(std::string(error.what()) + remedy, ExitCode::kUsage);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(), ExitCode::kInternal);
  }
}
