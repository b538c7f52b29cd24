#include "resume.h"

#include <algorithm>

#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"

namespace finetune {
namespace {

bool allows(const RunOptions& options, const std::string& change) {
  return std::find(options.allow_change.begin(), options.allow_change.end(), change) !=
         options.allow_change.end();
}

void refuse_unless_allowed(const std::string& what, const std::string& change, const Json& saved,
                           const Json& now, const RunOptions& options) {
  if (saved == now || allows(options, change)) return;
  throw ConfigError(
      "the checkpoint was made with " + what + " " + saved.dump() + ", now it is " + now.dump() +
      ": the run would not be the same. Restore it, start anew with --overwrite, or resume all the same "
      "with --allow-change " +
      change);
}

void say_differences(const Json& saved, const Json& now) {
  for (const auto& change : Json::diff(saved, now)) {
    const std::string path = change.at("path").get<std::string>();
    if (path == "/output_dir") continue;
    const Json::json_pointer pointer(path);
    spdlog::info("resume: {} was {}, is {}", path,
                 saved.contains(pointer) ? saved.at(pointer).dump() : "unset",
                 now.contains(pointer) ? now.at(pointer).dump() : "unset");
  }
}

}  // namespace

RunIdentity identify(const RunConfig& config, const Inputs& inputs, int64_t num_steps,
                     const std::string& precision, const Json& environment) {
  return {.num_steps = num_steps,
          .batch_size = config.train.batch_size,
          .task = task_name(config.task.type),
          .precision = precision,
          .data = inputs.fingerprint,
          .labels = inputs.task->labels().names(),
          .environment = environment,
          .config = to_json(config)};
}

Json to_json(const RunIdentity& identity) {
  return Json{{"num_steps", identity.num_steps},
              {"batch_size", identity.batch_size},
              {"task", identity.task},
              {"precision", identity.precision},
              {"data", identity.data},
              {"labels", identity.labels},
              {"environment", identity.environment},
              {"config", identity.config}};
}

std::optional<std::string> saved_precision(const std::optional<VerifiedCheckpoint>& checkpoint) {
  if (!checkpoint) return std::nullopt;
  return checkpoint->state.at("precision").get<std::string>();
}

void check_resume(const Json& saved, const RunIdentity& now, const RunOptions& options) {
  refuse_unless_allowed("task", "task", saved.at("task"), now.task, options);
  refuse_unless_allowed("labels", "labels", saved.at("labels"), now.labels, options);
  refuse_unless_allowed("batch_size", "batch_size", saved.at("batch_size"), now.batch_size, options);
  if (saved.at("data") != now.data && !allows(options, "data")) {
    throw ConfigError(
        "the training data (rows, tokenizer or max_length) are not those the checkpoint was made with: the "
        "run "
        "would not be the same. Restore them, start anew with --overwrite, or resume all the same with "
        "--allow-change data");
  }
  for (const char* key : {"threads", "isa", "device"}) {
    if (saved.at("environment").value(key, Json()) == now.environment.value(key, Json())) continue;
    spdlog::warn(
        "resume: {} was {}, is {}: the last bits of the weights will differ from an undisturbed run's", key,
        saved.at("environment").value(key, Json()).dump(), now.environment.value(key, Json()).dump());
  }
  if (saved.at("precision") != now.precision) {
    spdlog::warn(
        "resume: the precision was {}, is {}: from here on this is another run than an undisturbed one",
        saved.at("precision").get<std::string>(), now.precision);
  }
  if (saved.at("num_steps") != now.num_steps) {
    spdlog::info("resume: the run was laid out for {} steps, now for {}; the schedule follows the new total",
                 saved.at("num_steps").dump(), now.num_steps);
  }
  say_differences(saved.at("config"), now.config);
}

}  // namespace finetune
