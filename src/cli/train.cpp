#include "commands.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/train/headline.h"
#include "finetune/train/run.h"

namespace finetune::cli {
namespace {

struct TrainOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string output_dir;
  RunOptions run;
};

int run_train(TrainOptions options, bool quiet) {
  if (!options.output_dir.empty())
    options.overrides.push_back("output_dir=" + Json(options.output_dir).dump());
  options.run.quiet = quiet;
  const auto [config, given] = load_config_and_keys(options.config, options.overrides);
  options.run.given_keys = given;
  const Json summary = run(config, options.run);
  spdlog::info("model: {}", (config.output_dir / "model").string());
  for (const auto& [split, metrics] : summary.at("metrics").items()) {
    if (metrics.contains("loss")) spdlog::info("{}: {}", split, headline(metrics));
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_train(CLI::App& app, const CommonFlags& common, Action& action) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train as a config file says (the default)");
  command->add_option("--config", options->config, "Config file (JSON)")->required();
  command
      ->add_option("--set", options->overrides,
                   "KEY=VALUE: override a key of the config, e.g. train.epochs=2")
      ->allow_extra_args(false);
  command->add_option("--output-dir", options->output_dir, "Where the run goes; overrides output_dir");
  command
      ->add_option("--resume", options->run.resume,
                   "never, auto, or what to go on from: a checkpoint folder, or a Python script's .pth")
      ->capture_default_str();
  command->add_flag("--overwrite", options->run.overwrite,
                    "Delete the run that output_dir holds and start anew");
  command
      ->add_option("--allow-change", options->run.allow_change,
                   "Resume though these differ: batch_size,data,labels,task")
      ->delimiter(',');
  command->callback([options, &common, &action] {
    action = [options, &common] { return run_train(*options, common.quiet); };
  });
}

}  // namespace finetune::cli
