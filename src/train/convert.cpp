#include "finetune/train/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/checkpoint/store.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/optim/optimizer.h"
#include "finetune/optim/schedule.h"
#include "finetune/optim/update_rules.h"
#include "finetune/tasks/task.h"
#include "finetune/train/model_directory.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

enum class Format { kPth, kBareWeights, kSafetensors, kDirectory };

Format format_of(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".pth" || extension == ".pt") return Format::kPth;
  if (extension == ".bin") return Format::kBareWeights;
  if (extension == ".safetensors") return Format::kSafetensors;
  return Format::kDirectory;
}

/// The folder of a checkpoint that `path` means: one itself, or a run's newest; nothing where it means
/// something else.
std::optional<fs::path> checkpoint_folder(const fs::path& path) {
  for (const fs::path& folder : {path, path / "checkpoints" / "latest"}) {
    if (fs::exists(folder / "MANIFEST.json")) return fs::canonical(folder);
  }
  return std::nullopt;
}

/// Updates that were applied, which the schedule goes by.
int64_t applied_updates(const VerifiedCheckpoint& checkpoint) {
  const SafetensorsFile file(checkpoint.directory / "optimizer.safetensors");
  const auto* entry = file.find("applied");
  int64_t applied = 0;
  if (entry == nullptr || file.bytes(*entry).size() != sizeof(applied))
    throw CheckpointError(file.path().string() + " has no count of applied updates");
  std::memcpy(&applied, file.bytes(*entry).data(), sizeof(applied));
  return applied;
}

/// A run's checkpoint and what it says of itself.
class RunCheckpoint {
 public:
  explicit RunCheckpoint(const fs::path& folder)
      : checkpoint_(verify_checkpoint(folder)),
        config_(parse_run_config(checkpoint_.state.at("config"), folder)),
        source_(checkpoint_.state.at("train").value("source", Json())) {
    for (const char* key : {"parameters", "epoch", "num_steps", "labels"}) {
      if (checkpoint_.state.contains(key)) continue;
      throw CheckpointError(
          (folder / "state.json").string() + " has no '" + key +
          "', expected a checkpoint of this version; resume the run with it and convert what it "
          "saves");
    }
  }

  const VerifiedCheckpoint& verified() const { return checkpoint_; }
  const RunConfig& config() const { return config_; }
  std::vector<std::string> labels() const { return checkpoint_.state.at("labels"); }

  PythonCheckpoint python() const {
    PythonLayout layout;
    layout.parameters = checkpoint_.state.at("parameters").get<std::vector<std::string>>();
    layout.epoch = static_cast<int64_t>(std::floor(checkpoint_.state.at("epoch").get<double>() + 1e-9));
    if (!source_.is_null()) {
      layout.names = source_.at("names").get<std::map<std::string, std::string>>();
      const auto key = source_.at("weights_key").get<std::string>();
      if (!key.empty()) layout.weights_key = key;
    }
    layout.groups = groups(layout);
    return to_python(checkpoint_, layout);
  }

 private:
  /// The groups that the script had; else one for each rate and weight decay: one alone where all agree, else
  /// Hugging Face's two, or more. Frozen parameters are in none.
  std::vector<AdamGroup> groups(const PythonLayout& layout) const {
    std::vector<AdamGroup> groups;
    if (!source_.is_null() && source_.contains("groups") && names_all_groups()) {
      for (const auto& names : source_.at("groups")) groups.push_back(group(names));
      return groups;
    }
    const SafetensorsFile optimizer(checkpoint_.directory / "optimizer.safetensors");
    const std::vector<UpdateRule> rules = update_rules(layout.parameters, config_.optimizer);
    std::vector<std::pair<double, double>> settings;  // rate factor and weight decay of each group
    std::vector<std::vector<std::string>> names;
    for (size_t i = 0; i < rules.size(); ++i) {
      const std::string& name = layout.parameters[i];
      if (optimizer.find("step/" + name) == nullptr) continue;
      const std::pair own(rules[i].rate_factor, rules[i].weight_decay);
      const auto found = std::find(settings.begin(), settings.end(), own);
      const auto number = static_cast<size_t>(found - settings.begin());
      if (found == settings.end()) {
        settings.push_back(own);
        names.emplace_back();
      }
      const auto renamed = layout.names.find(name);
      names[number].push_back(renamed == layout.names.end() ? name : renamed->second);
    }
    for (size_t i = 0; i < settings.size(); ++i) {
      AdamGroup& made = groups.emplace_back(group(names[i]));
      made.learning_rate = made.learning_rate.value_or(0) * settings[i].first;
      if (made.peak_learning_rate) made.peak_learning_rate = *made.peak_learning_rate * settings[i].first;
      made.weight_decay = settings[i].second;
    }
    return groups;
  }

  bool names_all_groups() const {
    const auto& groups = source_.at("groups");
    return std::all_of(groups.begin(), groups.end(), [](const Json& names) { return !names.empty(); });
  }

  AdamGroup group(const std::vector<std::string>& names) const {
    const OptimizerConfig& optimizer = config_.optimizer;
    const auto rates = learning_rates(config_.schedule, optimizer.learning_rate,
                                      checkpoint_.state.at("num_steps").get<int64_t>());
    const auto next = std::min(static_cast<size_t>(applied_updates(checkpoint_)), rates.size() - 1);
    AdamGroup group;
    group.names = names;
    const bool constant = config_.schedule.type == ScheduleType::kConstant && config_.schedule.warmup == 0;
    group.learning_rate = constant ? optimizer.learning_rate : static_cast<double>(rates[next]);
    if (!constant) group.peak_learning_rate = optimizer.learning_rate;
    group.beta1 = optimizer.beta1;
    group.beta2 = optimizer.beta2;
    group.eps = optimizer.eps;
    group.amsgrad = optimizer.amsgrad;
    group.decoupled = optimizer.type == OptimizerType::kAdamW;
    const auto num_undecayed = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return matches_any(name, optimizer.no_decay);
    });
    const bool mixed = num_undecayed > 0 && num_undecayed < static_cast<int64_t>(names.size());
    if (mixed && optimizer.weight_decay > 0) {
      spdlog::warn(
          "a param group of the script holds parameters that decay here and some that do not "
          "(optimizer.no_decay); its weight_decay {} is for all of them",
          optimizer.weight_decay);
    }
    group.weight_decay = mixed || num_undecayed == 0 ? optimizer.weight_decay : 0.0;
    return group;
  }

  VerifiedCheckpoint checkpoint_;
  RunConfig config_;
  Json source_;  ///< see restore_python
};

/// Everything of a Hugging Face directory but its weights.
void copy_other_files(const fs::path& from, const fs::path& to) {
  for (const auto& item : fs::directory_iterator(from)) {
    const std::string name = item.path().filename().string();
    const bool weights = format_of(name) != Format::kDirectory || name.ends_with(".index.json");
    if (item.is_regular_file() && !weights && name != "config.json") fs::copy_file(item.path(), to / name);
  }
}

void write_directory(const fs::path& target, const NamedTensors& weights, const fs::path& model) {
  export_model_directory(target, read_model_config(model), weights,
                         [&](const fs::path& folder) { copy_other_files(model, folder); });
}

void write_weights(const fs::path& target, NamedTensors weights, const std::optional<fs::path>& model) {
  switch (format_of(target)) {
    case Format::kPth:
    case Format::kBareWeights: {
      PythonCheckpoint bare;
      bare.weights_key.clear();
      bare.weights = std::move(weights);
      return write_python_checkpoint(target, bare);
    }
    case Format::kSafetensors:
      write_safetensors(target, weights, {{"format", "pt"}});
      return;
    case Format::kDirectory:
      if (!model) {
        throw ConfigError(
            target.string() +
            " is to be a Hugging Face directory, which needs a config.json and a tokenizer; name the "
            "directory to take them from by --model");
      }
      return write_directory(target, weights, *model);
  }
}

void convert_run(const RunCheckpoint& run, const fs::path& target, const std::optional<fs::path>& model) {
  const fs::path& folder = run.verified().directory;
  if (run.config().model.lora) {
    throw CheckpointError(
        folder.string() +
        ": found weights with adapters (model.lora), expected those of a plain model; the run's "
        "folder model/ has them merged and adapter/ has them in PEFT's format, when it is finished");
  }
  if (run.config().model.ema)
    spdlog::info("the weights are taken, not their average (model.ema), which the run's folder model/ has");
  PythonCheckpoint python = run.python();
  if (format_of(target) == Format::kPth) {
    if (!python.optimizer) spdlog::info("the run's optimizer is not Adam: its state is left out");
    if (python.optimizer && python.optimizer->groups.front().learning_rate == 0)
      spdlog::info("the schedule has come to its end, so the param groups' lr is 0; set another to train on");
    return write_python_checkpoint(target, python);
  }
  // Where names are not the script's, they are Hugging Face's.
  if (format_of(target) != Format::kDirectory || model) {
    return write_weights(target, read_weights(run.verified().directory / "model.safetensors"), model);
  }
  std::vector<Parameter> parameters;
  for (const auto& [name, tensor] : read_weights(run.verified().directory / "model.safetensors"))
    parameters.push_back({name, tensor, {}, {}});
  const auto tokenizer = load_tokenizer(run.config().model.path);
  const auto task = make_task(run.config().task, LabelMap(run.labels()));
  save_trained_model(target, read_model_config(run.config().model.path), parameters, *tokenizer, *task,
                     run.config(), Json::object());
}

}  // namespace

void convert(const fs::path& source, const fs::path& target, const std::optional<fs::path>& model,
             bool overwrite) {
  if (!fs::exists(source)) {
    throw CheckpointError(
        source.string() +
        " does not exist; expected a checkpoint, a .pth, .bin or .safetensors file, or a Hugging "
        "Face directory");
  }
  if (fs::exists(target) && !overwrite)
    throw ConfigError(target.string() + " exists already; choose another name, or replace it by --overwrite");
  if (const auto folder = checkpoint_folder(source)) {
    convert_run(RunCheckpoint(*folder), target, model);
  } else if (format_of(source) == Format::kPth && format_of(target) == Format::kPth) {
    const PythonCheckpoint checkpoint = read_python_checkpoint(source);
    for (const std::string& remark : checkpoint.remarks) spdlog::info("{}", remark);
    write_python_checkpoint(target, checkpoint);
  } else {
    const bool has_files = fs::is_directory(source) && fs::exists(source / "config.json");
    write_weights(target, read_weights(source), model || !has_files ? model : std::optional(source));
  }
  spdlog::info("wrote {}", target.string());
}

}  // namespace finetune
