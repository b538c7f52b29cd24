#include "inspect.h"

#include <iostream>
#include <memory>

#include "commands.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "finetune/data/guess.h"
#include "finetune/data/inspection.h"
#include "finetune/tasks/task.h"
#include "model_choice.h"
#include "model_input.h"

namespace finetune::cli {
namespace {

struct InspectOptions {
  std::vector<std::filesystem::path> paths;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string model;
  std::string task;
  int64_t samples = 3;
  bool json = false;
  DataFlags flags;
};

/// Files and the splits they belong to, in order.
using Files = std::vector<std::pair<std::string, std::filesystem::path>>;

void print(const InspectOptions& options, const Json& json, const std::string& text) {
  if (options.json) {
    std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    std::cout << text;
  }
}

Files files_of(const DataConfig& data) {
  Files files;
  for (const auto& file : data.train) files.emplace_back("train", file);
  const auto add = [&](const char* split, const std::vector<std::filesystem::path>& paths) {
    for (const auto& file : paths)
      files.emplace_back(paths.size() == 1 ? split : file.filename().string(), file);
  };
  add("validation", data.validation);
  add("test", data.test);
  return files;
}

/// Without a config, columns that were not named are guessed from the first file, and said.
void guess_columns(const InspectOptions& options, Inspection::Options& inspection) {
  const DataConfig asked = with_flags(DataConfig{}, options.flags);
  GuessHints hints;
  if (!options.flags.text.empty()) hints.text = asked.text;
  if (!options.flags.text_pair.empty()) hints.text_pair = asked.text_pair;
  if (!options.flags.label.empty()) hints.label = asked.label;
  if (!options.task.empty()) hints.task = task_type(options.task);
  const Guess guess = guess_data(profile_table(options.paths.front(), asked), hints);
  for (const std::string& reason : guess.reasons) spdlog::info("{}", reason);
  for (const std::string& doubt : guess.doubts) spdlog::warn("unsure: {}", doubt);
  inspection.data = guess.data;
  inspection.data.encoding = asked.encoding;
  inspection.shape = guess.data.label_shape;
}

int inspect_data(const InspectOptions& options) {
  Inspection::Options inspection;
  inspection.num_samples = options.samples;
  inspection.max_length = options.flags.max_length;
  std::string model = options.model;
  Files files;
  if (!options.config.empty()) {
    const RunConfig config = load_run_config(options.config, options.overrides);
    inspection.data = with_flags(config.data, options.flags);
    inspection.shape = config.data.label_shape;
    inspection.max_length = inspection.data.max_length;
    if (model.empty()) model = config.model.path.string();
    files = files_of(config.data);
  } else {
    guess_columns(options, inspection);
  }
  if (!options.paths.empty()) {
    files.clear();
    for (const auto& path : options.paths) files.emplace_back(path.string(), path);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  if (!model.empty()) tokenizer = load_tokenizer(find_model(model).directory);
  inspection.tokenizer = tokenizer.get();
  Inspection rows(std::move(inspection));
  for (const auto& [split, file] : files) rows.add_file(split, file);
  const InspectionReport report = rows.finish();
  print(options, to_json(report), to_text(report));
  return static_cast<int>(ExitCode::kOk);
}

int run_inspect(const InspectOptions& options) {
  if (options.paths.empty() && options.config.empty()) {
    throw ConfigError("inspect: expected a path, or --config FILE for the files that a config names");
  }
  if (options.paths.size() == 1 && is_checkpoint_path(options.paths.front())) {
    const Json description = describe_checkpoint(options.paths.front());
    print(options, description, checkpoint_text(description));
    return static_cast<int>(ExitCode::kOk);
  }
  return inspect_data(options);
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "What is in data files (lengths, labels, duplicates, leaks), or in a checkpoint or model");
  command->add_option(
      "PATH", options->paths,
      "Data files, each a split of its own; or a checkpoint, a weights file, a model directory");
  auto* config =
      command->add_option("--config", options->config, "Read as this config says; without PATH, its files");
  command->add_option("--set", options->overrides, "KEY=VALUE: override a key of the config")
      ->allow_extra_args(false)
      ->needs(config);
  command->add_option("--model", options->model,
                      "Count tokens as this model's tokenizer does (directory or hub id)");
  command->add_option("--task", options->task, "What is learned, where the guess is wrong")
      ->check(CLI::IsMember(
          {"sequence_classification", "multi_label_classification", "regression", "token_classification"}));
  command->add_option("--samples", options->samples, "Rows to show of each split")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  add_data_flags(*command, options->flags);
  command->callback([options, &action] { action = [options] { return run_inspect(*options); }; });
}

}  // namespace finetune::cli
