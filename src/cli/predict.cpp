#include "finetune/train/predict.h"

#include <iostream>

#include "commands.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/device/device.h"
#include "model_input.h"

namespace finetune::cli {
namespace {

struct PredictOptions {
  ModelInputFlags input;
  std::string file = "-";
  std::string output = "-";
  std::filesystem::path logits;
};

bool has_columns(const std::filesystem::path& file, const ModelInputFlags& flags) {
  const std::string extension = file.extension().string();
  return !flags.format.empty() || extension == ".csv" || extension == ".tsv" || extension == ".jsonl" ||
         extension == ".conll" || std::filesystem::is_directory(file);
}

/// Fields and positions cannot be told from a line of text.
void refuse_plain_lines(const PredictOptions& options, const DataConfig& data) {
  const ItemKind items = item_kind(data);
  if (items == ItemKind::kNone || items == ItemKind::kWords || has_columns(options.file, options.input))
    return;
  throw DataError(
      options.file + ": this model answers " + (items == ItemKind::kFields ? "fields" : "positions") +
      " of a row, which plain lines do not have; give JSONL (--format jsonl where the name does not "
      "say so)");
}

/// Lines to stdout or to a file, every write checked: a full disk must not pass for success.
class LineOutput {
 public:
  explicit LineOutput(const std::string& path) {
    if (path != "-") file_ = std::make_unique<OutputFile>(path);
  }
  void write(const std::string& line) {
    if (file_) {
      file_->write(line);
    } else if (!(std::cout << line)) {
      throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
    }
  }
  void close() {
    if (file_)
      file_->close();
    else if (!std::cout.flush())
      throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
  }

 private:
  std::unique_ptr<OutputFile> file_;
};

int run_predict(const PredictOptions& options) {
  const OpenDevice device = open_device(options.input.device, options.input.threads);
  TrainedModel trained = load_trained_model(options.input.model, device.device);
  trained.data = with_flags(trained.data, options.input);
  refuse_plain_lines(options, trained.data);
  const auto reader = has_columns(options.file, options.input)
                          ? open_rows(options.file, trained.data, LabelPresence::kOptional)
                      : item_kind(trained.data) == ItemKind::kWords
                          ? open_word_lines(options.file, trained.data.encoding)
                          : open_lines(options.file, trained.data.encoding);
  LineOutput output(options.output);
  std::optional<NpyWriter> logits;
  if (!options.logits.empty()) logits.emplace(options.logits, trained.task->labels().size());
  predict(trained, device.device, *reader, [&](const Prediction& prediction) {
    Json line = row_json(prediction.row);
    line.update(prediction.answer);
    output.write(line.dump() + "\n");
    if (logits) logits->append(prediction.logits);
  });
  output.close();
  if (logits) logits->close();
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_predict(CLI::App& app, Action& action) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand("predict", "Answer texts: one line of JSON a row, in order");
  add_model_input_flags(*command, options->input);
  command
      ->add_option("--input", options->file,
                   "Plain lines, or .csv, .tsv, .jsonl with the model's columns; -: stdin")
      ->capture_default_str();
  command->add_option("--output", options->output, "File, or - for stdout")->capture_default_str();
  command->add_option("--logits", options->logits,
                      "Write the logits as a NumPy file [rows, labels]; a line a word, field or position "
                      "where those are answered");
  command->callback([options, &action] { action = [options] { return run_predict(*options); }; });
}

}  // namespace finetune::cli
