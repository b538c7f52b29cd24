#include <iostream>
#include <memory>

#include "commands.h"
#include "description.h"
#include "finetune/core/error.h"

namespace finetune::cli {
namespace {

int run_completion(const CLI::App& app, const std::string& what) {
  const ProgramDescription program = describe_program(app);
  std::cout << (what == "bash"   ? bash_completion(program)
                : what == "zsh"  ? zsh_completion(program)
                : what == "fish" ? fish_completion(program)
                                 : manual_page(program));
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print what completes commands in a shell, or the manual page: source <(finetune completion bash)");
  command->add_option("SHELL", *what, "The shell; man: the manual page")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}));
  command->callback([&app, what, &action] { action = [&app, what] { return run_completion(app, *what); }; });
}

}  // namespace finetune::cli
