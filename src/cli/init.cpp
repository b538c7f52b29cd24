#include <algorithm>
#include <iostream>
#include <memory>

#include "commands.h"
#include "finetune/config/describe.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "finetune/tasks/task.h"
#include "init_config.h"
#include "model_input.h"

namespace finetune::cli {
namespace {

/// Rows whose lengths are measured: enough for the 99th percentile.
constexpr int64_t kRowsMeasured = 20'000;

struct InitOptions {
  std::filesystem::path data;
  std::string model;
  std::string output = "job.json";
  std::string task;
  bool overwrite = false;
  DataFlags flags;
};

ModelChoice choose_model(const InitOptions& options, std::vector<std::string>& reasons,
                         std::vector<std::string>& doubts) {
  if (!options.model.empty()) return find_model(options.model);
  const std::vector<ModelChoice> models = models_at_hand();
  if (models.empty()) {
    throw ConfigError(
        "--model is missing, and neither the working directory, nor models/, nor the local Hugging Face "
        "cache has an "
        "encoder; name the folder of one (--model DIR), or download one first: hf download "
        "google-bert/bert-base-uncased");
  }
  reasons.push_back("model.path: " + models.front().name +
                    ", because it is at hand and --model names no other");
  if (models.size() > 1) {
    std::vector<std::string> others;
    for (size_t i = 1; i < models.size(); ++i) others.push_back(models[i].name);
    doubts.push_back("there are other models, too: " + join_some(others) +
                     "; choose by --model, or set model.path");
  }
  return models.front();
}

GuessHints hints_of(const InitOptions& options) {
  GuessHints hints;
  if (!options.flags.text.empty()) hints.text = column_of(options.flags.text);
  if (!options.flags.text_pair.empty()) hints.text_pair = column_of(options.flags.text_pair);
  if (!options.flags.label.empty()) hints.label = column_of(options.flags.label);
  if (!options.task.empty()) hints.task = task_type(options.task);
  return hints;
}

/// Whether a file beside the data can be read as the data is, with labels; and the labels that only it has.
bool take_sibling(const std::filesystem::path& file, Guess& guess, const char* key,
                  std::vector<std::string>& reasons) {
  if (file.empty()) return false;
  try {
    Inspection inspection({.data = guess.data,
                           .shape = guess.data.label_shape,
                           .tokenizer = nullptr,
                           .max_length = std::nullopt,
                           .num_samples = 0});
    inspection.add_file(key, file, TableProfile::kMostRows);
    const SplitReport rows = inspection.finish().splits.front();
    if (rows.rows == 0 || rows.labels.unlabelled > 0 || rows.labels.not_numbers > 0) {
      throw DataError("not every row has a label");
    }
    std::vector<std::pair<std::string, int64_t>> unseen;
    for (const auto& label : rows.labels.counts) {
      const bool known = std::any_of(guess.labels.begin(), guess.labels.end(),
                                     [&](const auto& other) { return other.first == label.first; });
      if (!known) unseen.push_back(label);
    }
    if (unseen.size() * 2 > rows.labels.counts.size())
      throw DataError("most of its labels are none of the data's");
    std::vector<std::string> names;
    for (auto& label : unseen) {
      names.push_back(shown(label.first));
      guess.labels.push_back(std::move(label));
    }
    if (!names.empty()) {
      guess.doubts.push_back(file.string() + " has labels that the training rows have not (" +
                             join_some(names) + "); they are in task.labels, but cannot be learned");
    }
  } catch (const DataError& error) {
    guess.doubts.push_back(file.string() + " is not used for data." + key + ": " + error.what());
    return false;
  }
  reasons.push_back(std::string("data.") + key + ": " + file.string() + ", which lies beside the data");
  return true;
}

SplitReport measure(const Job& job) {
  const auto tokenizer = load_tokenizer(job.model.directory);
  Inspection inspection({.data = job.guess.data,
                         .shape = job.guess.data.label_shape,
                         .tokenizer = tokenizer.get(),
                         .max_length = std::nullopt,
                         .num_samples = 0});
  inspection.add_file("train", job.data, kRowsMeasured);
  return inspection.finish().splits.front();
}

void say(const std::vector<std::string>& reasons, const std::vector<std::string>& doubts) {
  for (const std::string& reason : reasons) spdlog::info("{}", reason);
  for (const std::string& doubt : doubts) spdlog::warn("unsure: {}", doubt);
}

std::string summary_of(const TableProfile& table) {
  return table.path.string() + ": " + (table.whole ? "" : "the first ") + with_thousands(table.num_rows) +
         " rows, columns " + shown_list(table.names());
}

int run_init(const InitOptions& options) {
  const bool to_stdout = options.output == "-";
  if (!to_stdout && !options.overwrite && std::filesystem::exists(options.output)) {
    throw ConfigError(options.output +
                      " is there already; write to another file by --output FILE, or over it by --overwrite");
  }
  const DataConfig asked = with_flags(DataConfig{}, options.flags);
  Job job{.data = options.data,
          .validation = {},
          .test = {},
          .folder = {},
          .table = {},
          .guess = {},
          .model = {},
          .rows = {}};
  job.folder =
      to_stdout ? std::filesystem::path(".") : std::filesystem::absolute(options.output).parent_path();
  job.table = profile_table(options.data, asked);
  spdlog::info("{}", summary_of(job.table));
  job.guess = guess_data(job.table, hints_of(options));
  job.guess.data.encoding = asked.encoding;
  std::vector<std::string> reasons = job.guess.reasons;
  job.model = choose_model(options, reasons, job.guess.doubts);
  const Siblings siblings = find_siblings(options.data);
  if (take_sibling(siblings.validation, job.guess, "validation", reasons))
    job.validation = siblings.validation;
  if (take_sibling(siblings.test, job.guess, "test", reasons)) job.test = siblings.test;
  job.rows = measure(job);
  for (const std::string& warning : suspicious_labels(job.guess.labels, job.guess.data.label.name,
                                                      job.guess.data.label_shape == LabelShape::kItems)) {
    job.guess.doubts.push_back("task.labels: " + warning);
  }

  Json config = make_config(job, reasons);
  if (options.flags.max_length) config["data"]["max_length"] = *options.flags.max_length;
  parse_run_config(config, job.folder);
  say(reasons, job.guess.doubts);
  if (to_stdout) {
    std::cout << config_text(config);
  } else {
    write_file_atomically(options.output, config_text(config));
    spdlog::info("written: {}", options.output);
    spdlog::info("try it:  finetune --config {} --dry-run", options.output);
    spdlog::info("train:   finetune --config {}", options.output);
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* command =
      app.add_subcommand("init", "Write a config for a data file: looks at its rows, guesses, and says why");
  command
      ->add_option("DATA", options->data,
                   "CSV, TSV, JSONL or CoNLL file, or a folder with one folder a class")
      ->required();
  command->add_option("--model", options->model,
                      "Model directory, or a hub id in the local Hugging Face cache");
  command->add_option("--output", options->output, "The config file to write; -: stdout")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Write over a file that is there");
  command->add_option("--task", options->task, "What is learned, where the guess is wrong")
      ->check(CLI::IsMember(
          {"sequence_classification", "multi_label_classification", "regression", "token_classification"}));
  add_data_flags(*command, options->flags);
  command->callback([options, &action] { action = [options] { return run_init(*options); }; });
}

}  // namespace finetune::cli
