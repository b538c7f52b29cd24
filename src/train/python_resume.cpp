#include "python_resume.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <optional>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "named_tensors.h"

namespace finetune {
namespace {

std::string number_text(double value) { return Json(value).dump(); }

/// Takes over, key by key, what the config leaves open.
class SettingsMerge {
 public:
  SettingsMerge(RunConfig& config, const PythonCheckpoint& checkpoint, const std::set<std::string>& given)
      : optimizer_(config.optimizer),
        groups_(checkpoint.optimizer->groups),
        given_(given),
        place_(checkpoint.file->path().filename().string()) {}

  void run() {
    if (groups_.empty()) return;
    merge_type();
    merge_learning_rate();
    merge("betas", optimizer_.beta1, shared("betas", &AdamGroup::beta1));
    merge("betas", optimizer_.beta2, shared("betas", &AdamGroup::beta2));
    merge("eps", optimizer_.eps, shared("eps", &AdamGroup::eps));
    merge_amsgrad();
    merge_weight_decay();
  }

 private:
  bool is_given(const std::string& key) const { return given_.contains("/optimizer/" + key); }

  void say(const std::string& key, const std::string& in_file, const std::string& in_config,
           bool config_wins) const {
    if (in_file == in_config) return;
    if (config_wins) {
      spdlog::info("resume: optimizer.{} is {} as the config says; {} has {}", key, in_config, place_,
                   in_file);
    } else {
      spdlog::info("resume: optimizer.{} is {} as {} has it", key, in_file, place_);
    }
  }

  void merge(const std::string& key, double& setting, std::optional<double> in_file) {
    if (!in_file) return;
    say(key, number_text(*in_file), number_text(setting), is_given(key));
    if (!is_given(key)) setting = *in_file;
  }

  /// What all groups say; where they differ the config must decide.
  std::optional<double> shared(const std::string& key, std::optional<double> AdamGroup::*member) const {
    const std::optional<double> first = groups_.front().*member;
    for (const AdamGroup& group : groups_) {
      if (group.*member == first || is_given(key)) continue;
      throw ConfigError(place_ + ": the optimizer's groups have different values of " + key +
                        ", expected one for all; set optimizer." + key);
    }
    return first;
  }

  void merge_type() {
    const auto decoupled = groups_.front().decoupled;
    if (!decoupled) return;
    const OptimizerType in_file = *decoupled ? OptimizerType::kAdamW : OptimizerType::kAdam;
    if (optimizer_.type == in_file) return;
    say("type", *decoupled ? "adamw" : "adam",
        optimizer_.type == OptimizerType::kSgd ? "sgd"
        : *decoupled                           ? "adam"
                                               : "adamw",
        is_given("type"));
    if (!is_given("type")) optimizer_.type = in_file;
  }

  /// A scheduler leaves the rate it came to in `lr`, and the one it started from in `initial_lr`: the
  /// schedule begins anew, so it is the second that counts.
  void merge_learning_rate() {
    const bool scheduled =
        std::all_of(groups_.begin(), groups_.end(), [](const AdamGroup& g) { return g.peak_learning_rate; });
    const auto& first = groups_.front();
    if (scheduled && first.learning_rate != first.peak_learning_rate) {
      spdlog::info("resume: {} was at the learning rate {} of a schedule from {}", place_,
                   number_text(first.learning_rate.value_or(0)), number_text(*first.peak_learning_rate));
    }
    merge("learning_rate", optimizer_.learning_rate,
          shared("learning_rate", scheduled ? &AdamGroup::peak_learning_rate : &AdamGroup::learning_rate));
  }

  void merge_amsgrad() {
    const bool in_file = groups_.front().amsgrad.value_or(false);
    if (optimizer_.type == OptimizerType::kSgd) return;
    say("amsgrad", in_file ? "true" : "false", optimizer_.amsgrad ? "true" : "false", is_given("amsgrad"));
    if (!is_given("amsgrad")) optimizer_.amsgrad = in_file;
  }

  void merge_weight_decay() {
    double decay = 0;
    for (const AdamGroup& group : groups_) decay = std::max(decay, group.weight_decay.value_or(0));
    for (const AdamGroup& group : groups_) {
      const double of_group = group.weight_decay.value_or(decay);
      if (of_group == decay || of_group == 0 || is_given("weight_decay")) continue;
      throw ConfigError(place_ + ": the optimizer's groups decay by " + number_text(of_group) + " and by " +
                        number_text(decay) + ", expected one value, or 0; set optimizer.weight_decay");
    }
    if (groups_.front().weight_decay) merge("weight_decay", optimizer_.weight_decay, decay);
    if (decay > 0 && !is_given("no_decay")) adopt_no_decay();
  }

  /// The usual rule that leaves the same parameters without decay as the file's groups do.
  void adopt_no_decay() {
    const std::vector<std::vector<std::string>> rules{
        optimizer_.no_decay, {}, {"bias"}, {"bias", "LayerNorm.weight", "norm.weight"}};
    for (const auto& rule : rules) {
      if (!agrees(rule)) continue;
      if (rule != optimizer_.no_decay) {
        spdlog::info("resume: optimizer.no_decay is {} as {} has it", Json(rule).dump(), place_);
        optimizer_.no_decay = rule;
      }
      return;
    }
    throw ConfigError(
        place_ +
        ": which parameters its optimizer leaves without weight decay follows no usual rule; set "
        "optimizer.no_decay to the ends of their names");
  }

  bool agrees(const std::vector<std::string>& rule) const {
    for (const AdamGroup& group : groups_) {
      for (const std::string& name : group.names) {
        if (matches_any(name, rule) != (group.weight_decay.value_or(0) == 0)) return false;
      }
    }
    return true;
  }

  OptimizerConfig& optimizer_;
  const std::vector<AdamGroup>& groups_;
  const std::set<std::string>& given_;
  std::string place_;
};

/// The moments of one parameter, as the optimizer names its state.
void fill_moments(const std::string& name, const AdamMoments& moments,
                  const std::map<std::string, at::Tensor>& state) {
  const auto fill = [&](const char* what, const at::Tensor& values) {
    const auto live = state.find(what + name);
    if (live != state.end() && values.defined()) copy_tensor(values, live->second);
  };
  fill("exp_avg/", moments.exp_avg);
  fill("exp_avg_sq/", moments.exp_avg_sq);
  fill("max_exp_avg_sq/", moments.max_exp_avg_sq);
  fill("step/", at::full({}, moments.step, at::kFloat));
}

Json groups_json(const AdamState& optimizer) {
  Json groups = Json::array();
  for (const AdamGroup& group : optimizer.groups) groups.push_back(group.names);
  return groups;
}

}  // namespace

RunConfig adopt_settings(const RunConfig& config, const PythonCheckpoint& checkpoint,
                         const std::set<std::string>& given) {
  RunConfig merged = config;
  if (checkpoint.optimizer) SettingsMerge(merged, checkpoint, given).run();
  return merged;
}

RunConfig keep_adopted_settings(const RunConfig& config, const Json& state,
                                const std::set<std::string>& given) {
  if (!state.at("train").contains("source")) return config;
  Json merged = to_json(config);
  for (const auto& [key, value] : state.at("config").at("optimizer").items()) {
    if (!given.contains("/optimizer/" + key)) merged["optimizer"][key] = value;
  }
  return parse_run_config(merged, config.output_dir);
}

Json restore_python(const PythonCheckpoint& checkpoint, const RunConfig& config, const Classifier& model,
                    const Optimizer& optimizer) {
  const LoadReport report = load_python_weights(checkpoint, named_tensors(model.parameters()),
                                                model.base_prefix(), config.model.rename);
  refresh_copies(model.parameters());
  for (const std::string& remark : checkpoint.remarks) spdlog::info("resume: {}", remark);
  if (!report.unexpected.empty())
    spdlog::info("resume: in the weights, but of no use here: {}", join_some(report.unexpected));
  Json source{{"file", checkpoint.file->path().string()},
              {"weights_key", checkpoint.weights_key},
              {"names", report.written}};
  if (!checkpoint.optimizer) {
    spdlog::info("resume: {} holds no optimizer state, so it begins anew",
                 checkpoint.file->path().filename().string());
    return source;
  }
  if (config.optimizer.type == OptimizerType::kSgd) {
    spdlog::info("resume: Adam's moments are of no use to optimizer.type sgd");
    return source;
  }
  std::map<std::string, at::Tensor> state;
  for (auto& [name, tensor] : optimizer.state()) state.emplace(name, tensor);
  for (const auto& [name, written] : report.written) {
    const auto moments = checkpoint.optimizer->moments.find(written);
    if (moments != checkpoint.optimizer->moments.end()) fill_moments(name, moments->second, state);
  }
  source["groups"] = groups_json(*checkpoint.optimizer);
  return source;
}

}  // namespace finetune
