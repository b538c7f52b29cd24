#include "finetune/doctor/doctor.h"

#include <iostream>

#include "commands.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"

namespace finetune::cli {
namespace {

struct DoctorOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string device = "auto";
  int64_t threads = 0;
  bool json = false;
};

int run_doctor(const DoctorOptions& options) {
  doctor::Options asked{.config = std::nullopt, .device = options.device, .threads = options.threads};
  if (!options.config.empty()) {
    std::vector<std::string> overrides = options.overrides;
    if (options.device != "auto") overrides.push_back("device=" + options.device);
    if (options.threads > 0) overrides.push_back("threads=" + std::to_string(options.threads));
    asked.config = load_run_config(options.config, overrides);
  }
  const auto probe = doctor::machine_probe();
  const doctor::Report report = doctor::examine(asked, *probe);
  if (options.json) {
    std::cout << to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    std::cout << to_text(report);
  }
  return static_cast<int>(report.healthy() ? ExitCode::kOk : ExitCode::kDevice);
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Is this machine, and this run, set up to be fast? Measures, explains, says what to type");
  auto* config = command->add_option("--config", options->config, "Also rehearse a few steps of this job");
  command->add_option("--set", options->overrides, "KEY=VALUE: override a key of the config")
      ->allow_extra_args(false)
      ->needs(config);
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; 0: all")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &action] { action = [options] { return run_doctor(*options); }; });
}

}  // namespace finetune::cli
