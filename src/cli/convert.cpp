#include "finetune/train/convert.h"

#include "commands.h"
#include "finetune/core/error.h"

namespace finetune::cli {
namespace {

struct ConvertOptions {
  std::filesystem::path source, target;
  std::optional<std::filesystem::path> model;
  bool overwrite = false;
};

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Checkpoint, .pth, .bin, .safetensors, Hugging Face directory: one into another");
  command
      ->add_option("source", options->source,
                   "A run's folder or checkpoint, a weights file, or a Hugging Face directory")
      ->required();
  command
      ->add_option("target", options->target,
                   "What to write; its ending says what: .pth, .bin, .safetensors, else a directory")
      ->required();
  command->add_option("--model", options->model,
                      "Hugging Face directory whose config.json and tokenizer a target directory gets");
  command->add_flag("--overwrite", options->overwrite, "Replace the target where it is there already");
  command->callback([options, &action] {
    action = [options] {
      convert(options->source, options->target, options->model, options->overwrite);
      return static_cast<int>(ExitCode::kOk);
    };
  });
}

}  // namespace finetune::cli
