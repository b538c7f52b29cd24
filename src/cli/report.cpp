#include <iostream>

#include "commands.h"
#include "finetune/core/error.h"
#include "finetune/report/page.h"

namespace finetune::cli {
namespace {

struct ReportOptions {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path output;
};

int run_report(const ReportOptions& options) {
  const auto beside_the_run = options.runs.front() / "report.html";
  const auto output = !options.output.empty()   ? options.output
                      : options.runs.size() > 1 ? std::filesystem::path("report.html")
                                                : beside_the_run;
  write_report(options.runs, output);
  std::cout << output.string() << '\n';
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "Write one HTML page about one run, or one that compares several");
  command->add_option("RUN", options->runs, "Folders of runs, ended or not")->required();
  command->add_option("--output", options->output,
                      "The page (default: RUN/report.html; of several runs report.html)");
  command->callback([options, &action] { action = [options] { return run_report(*options); }; });
}

}  // namespace finetune::cli
