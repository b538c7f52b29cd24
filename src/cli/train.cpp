#include <algorithm>
#include <iostream>

#include "commands.h"
#include "finetune/checkpoint/pretrained.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/report/result_text.h"
#include "finetune/train/dry_run.h"
#include "finetune/train/run.h"

namespace finetune::cli {
namespace {

struct TrainOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string output_dir;
  std::optional<int64_t> max_rows;
  bool dry_run = false;
  bool overfit_batch = false;
  RunOptions run;
};

/// What would happen, on stdout; what would stop the run ends with the exit code of a refused one.
int run_rehearsal(const RunConfig& config, const TrainOptions& options) {
  const DryRun report = dry_run(config, options.run);
  std::cout << to_text(report);
  return static_cast<int>(report.problems.empty() ? ExitCode::kOk : ExitCode::kUsage);
}

int run_overfit_batch(const RunConfig& config) {
  const OverfitReport report = overfit_batch(config);
  std::cout << to_text(report);
  return static_cast<int>(report.learned ? ExitCode::kOk : ExitCode::kUsage);
}

/// The metrics of every split, and what the first one's rows were taken for.
std::string result_text(const Json& metrics, const std::filesystem::path& model) {
  std::string text = metrics_table(metrics);
  if (text.empty()) return text;
  const Json* first = &metrics.begin().value();
  if (!first->contains("loss")) first = &first->begin().value();
  const Json config = read_model_config(model);
  std::vector<std::string> labels;
  if (!config.contains("id2label")) return text;
  for (const auto& [id, name] : config.at("id2label").items()) {
    const size_t number = std::stoul(id);
    labels.resize(std::max(labels.size(), number + 1));
    labels[number] = name.get<std::string>();
  }
  if (first->contains("confusion")) text += "\n" + confusion_text(first->at("confusion"), labels, 80);
  return text;
}

int run_train(TrainOptions options, bool quiet) {
  if (!options.output_dir.empty())
    options.overrides.push_back("output_dir=" + Json(options.output_dir).dump());
  if (options.max_rows) options.overrides.push_back("data.max_rows=" + std::to_string(*options.max_rows));
  options.run.quiet = quiet;
  const auto [config, given] = load_config_and_keys(options.config, options.overrides);
  options.run.given_keys = given;
  if (options.overfit_batch) return run_overfit_batch(config);
  if (options.dry_run) return run_rehearsal(config, options);
  const Json summary = run(config, options.run);
  spdlog::info("model: {}", (config.output_dir / "model").string());
  if (!quiet) std::cerr << result_text(summary.at("metrics"), config.output_dir / "model");
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
  command->add_option("--max-rows", options->max_rows, "Train on the first N rows; overrides data.max_rows")
      ->check(CLI::PositiveNumber);
  auto* dry_run =
      command->add_flag("--dry-run", options->dry_run,
                        "Do a few steps, an evaluation's batch and a save into a temporary folder, "
                        "and print what the run would do and take");
  command
      ->add_flag("--overfit-batch", options->overfit_batch,
                 "Train on one batch until its loss is near zero: can this job learn at all?")
      ->excludes(dry_run);
  command->callback([options, &common, &action] {
    action = [options, &common] { return run_train(*options, common.quiet); };
  });
}

}  // namespace finetune::cli
