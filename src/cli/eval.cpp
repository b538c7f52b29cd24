#include <fstream>
#include <iostream>

#include "commands.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/text.h"
#include "finetune/device/device.h"
#include "finetune/train/predict.h"
#include "model_input.h"

namespace finetune::cli {
namespace {

struct EvalOptions {
  ModelInputFlags input;
  std::filesystem::path data;
  std::filesystem::path json;
  std::filesystem::path predictions;
};

/// A row's label, or its list of labels, as the file has them.
Json gold_json(const Row& row, LabelShape shape, const std::string& separator) {
  if (row.labels) return *row.labels;
  if (shape == LabelShape::kClasses && row.label) return split_at(*row.label, separator);
  return row.label.value_or("");
}

/// One line of `--predictions`: the row, its gold label, and the answer.
std::string prediction_line(const Prediction& prediction, const DataConfig& data) {
  Json line = row_json(prediction.row);
  line["gold"] = gold_json(prediction.row, data.label_shape, data.label_separator);
  line.update(prediction.answer);
  return line.dump() + "\n";
}

int run_eval(const EvalOptions& options) {
  const OpenDevice device = open_device(options.input.device, options.input.threads);
  TrainedModel trained = load_trained_model(options.input.model, device.device);
  trained.data = with_flags(trained.data, options.input);
  const auto reader = open_rows(options.data, trained.data, LabelPresence::kRequired);
  std::unique_ptr<OutputFile> predictions;
  if (!options.predictions.empty()) predictions = std::make_unique<OutputFile>(options.predictions);
  PredictionSink sink;
  if (predictions)
    sink = [&](const Prediction& prediction) {
      predictions->write(prediction_line(prediction, trained.data));
    };

  const Json metrics = evaluate_rows(trained, device.device, *reader, sink);
  if (predictions) predictions->close();
  if (!options.json.empty()) write_file_atomically(options.json, metrics.dump(2) + "\n");
  std::cout << metrics.dump() << '\n';
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      app.add_subcommand("eval", "Measure a model on a labelled file; prints the metrics as JSON");
  add_model_input_flags(*command, options->input);
  command->add_option("--data", options->data, "Labelled file")->required();
  command->add_option("--json", options->json, "Write the metrics to this file too");
  command->add_option("--predictions", options->predictions,
                      "Write every row's gold label and prediction (JSONL)");
  command->callback([options, &action] { action = [options] { return run_eval(*options); }; });
}

}  // namespace finetune::cli
