#include "finetune/train/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>

#include "finetune/checkpoint/pretrained.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "finetune/device/available_memory.h"
#include "finetune/optim/schedule.h"
#include "finetune/train/adapter.h"
#include "finetune/train/evaluate.h"
#include "finetune/train/memory_plan.h"
#include "finetune/train/model_directory.h"
#include "finetune/train/recipe.h"
#include "named_tensors.h"
#include "python_resume.h"
#include "run_details.h"
#include "trainer.h"

namespace finetune {
namespace {

/// Tokens of a forward pass where `micro_batch_size` is `auto` on a CPU: beyond it products gain nothing and
/// activations leave the caches.
constexpr int64_t kCpuMicroBatchTokens = 8192;

}  // namespace

void choose_micro_batch(const RunConfig& config, const Inputs& inputs, c10::Device device,
                        at::ScalarType precision, Batcher& batcher) {
  if (!config.train.micro_batch_size.automatic || device.is_cpu()) return;
  const int64_t whole = largest_micro_batch(inputs.train.lengths, batcher.micro_batch_rows(), 0);
  const auto available = available_memory(device);
  // An estimate: memory that runs out all the same halves the micro-batch.
  const int64_t that_fit =
      available ? *available / estimate_activations(inputs.encoder, 1, precision) : whole;
  batcher.set_micro_batch_tokens(std::clamp<int64_t>(that_fit, 1, whole));
}

Batcher make_batcher(const RunConfig& config, Inputs& inputs, c10::Device device) {
  const auto& micro = config.train.micro_batch_size;
  const auto& workers = config.data.workers;
  return Batcher(inputs.train, inputs.task->label_weights(inputs.train),
                 {.batch_size = config.train.batch_size,
                  .micro_batch_rows = micro.automatic ? 0 : micro.value,
                  .micro_batch_tokens = micro.automatic ? kCpuMicroBatchTokens : 0,
                  .drop_last = config.train.drop_last,
                  .shuffle = config.data.shuffle,
                  .seed = config.seed,
                  .device = device,
                  .num_workers = workers.automatic ? std::nullopt : std::optional(workers.value)});
}

int64_t count_steps(const TrainConfig& train, int64_t steps_per_epoch) {
  const bool neither = !train.epochs && !train.max_steps;
  int64_t steps = std::numeric_limits<int64_t>::max();
  if (train.epochs || neither) {
    steps = std::llround(std::ceil(train.epochs.value_or(3.0) * static_cast<double>(steps_per_epoch) - 1e-9));
  }
  if (train.max_steps) steps = std::min(steps, *train.max_steps);
  return steps;
}

Classifier make_model(const RunConfig& config, const Inputs& inputs, c10::Device device,
                      at::ScalarType precision) {
  return Classifier(inputs.encoder, inputs.task->head(), device, precision, config.model);
}

Optimizer make_optimizer(const RunConfig& config, const Classifier& model, int64_t num_steps,
                         bool scales_loss) {
  return Optimizer(model.parameters(), config.optimizer,
                   learning_rates(config.schedule, config.optimizer.learning_rate, num_steps), scales_loss,
                   config.model);
}

int64_t learning_depth(int64_t step, int64_t every) {
  return every == 0 ? std::numeric_limits<int64_t>::max() : step / every;
}

/// Only a head may begin from random values, and so may the pooler, which belongs to it.
void refuse_partial_encoder(const std::filesystem::path& directory, const std::vector<std::string>& missing,
                            const Classifier& model) {
  std::vector<std::string> in_encoder;
  for (const std::string& name : missing) {
    if (!model.is_of_head(name) && !is_adapter(name)) in_encoder.push_back(name);
  }
  if (in_encoder.empty()) return;
  throw CheckpointError(
      "the weights in " + directory.string() + " lack " + join_some(in_encoder) +
      ", expected every parameter of the encoder: it would be trained from random values in "
      "part. Take the whole weights, or set model.init to \"random\" to use none of them");
}

void load_initial_weights(const RunConfig& config, Classifier& model) {
  if (config.model.init == WeightInit::kRandom) {
    model.initialize_parameters(config.seed);
    refresh_copies(model.parameters());
    spdlog::info("model.init is random: no weights are loaded");
    return;
  }
  const LoadReport report = load_pretrained(config.model.path, named_tensors(model.parameters()),
                                            model.base_prefix(), config.model.rename);
  refuse_partial_encoder(config.model.path, report.missing, model);
  model.initialize_parameters(config.seed, report.missing);
  refresh_copies(model.parameters());
  if (!report.missing.empty()) {
    spdlog::info("not in the weights, so newly initialised: {}", join_some(report.missing));
  }
  if (!report.unexpected.empty()) {
    spdlog::info("in the weights, but of no use here: {}", join_some(report.unexpected));
  }
}

MemoryPlan plan_memory(const RunConfig& config, const Inputs& inputs, const Classifier& model,
                       const Batcher& batcher) {
  int64_t data_bytes = batcher.streamed() ? 0 : inputs.train.nbytes();
  for (const auto* splits : {&inputs.validation, &inputs.test}) {
    for (const auto& [name, dataset] : *splits) data_bytes += dataset.nbytes();
  }
  MemoryPlan plan = plan_memory(
      inputs.encoder, model.parameters(), config.optimizer,
      largest_micro_batch(inputs.train.lengths, batcher.micro_batch_rows(), batcher.micro_batch_tokens()),
      data_bytes);
  if (config.model.ema) plan.moments += plan.gradients;
  return plan;
}

namespace {

void say_header(const RunConfig& config, const Inputs& inputs, const Classifier& model,
                const Batcher& batcher, const OpenDevice& device, const ResolvedPrecision& precision,
                const Json& environment, int64_t num_steps) {
  int64_t num_parameters = 0, num_frozen = 0;
  for (const Parameter& parameter : model.parameters()) {
    num_parameters += parameter.value.numel();
    if (parameter.frozen()) num_frozen += parameter.value.numel();
  }
  spdlog::info("device: {} ({})", environment.at("device_name").get<std::string>(),
               environment.at("device_reason").get<std::string>());
  const int64_t num_labels = inputs.task->labels().size();
  spdlog::info("model: {}, {} parameters{}{}", config.model.path.filename().string(),
               with_thousands(num_parameters),
               num_frozen > 0 ? " (" + with_thousands(num_frozen) + " of them frozen)" : std::string(),
               num_labels > 0 ? ", " + std::to_string(num_labels) + " labels" : std::string());
  for (const auto& [split, counts] : inputs.description.items()) {
    spdlog::info("{}: {} rows, {} tokens", split, with_thousands(counts.at("rows").get<int64_t>()),
                 with_thousands(counts.at("tokens").get<int64_t>()));
  }
  spdlog::info("memory: {}",
               to_text(plan_memory(config, inputs, model, batcher), available_memory(device.device)));
  spdlog::info("training: {} steps of {} rows in {}", with_thousands(num_steps), config.train.batch_size,
               precision.name);
}

void read_tensors(const std::filesystem::path& path, const NamedTensors& tensors) {
  const SafetensorsFile file(path);
  for (const auto& [name, tensor] : tensors) {
    const auto* entry = file.find(name);
    if (entry == nullptr) throw CheckpointError(path.string() + ": has no tensor " + name);
    file.read_into(*entry, tensor);
  }
}

/// Puts the weights of the best checkpoint back, where they are not the last ones. Returns the step they are
/// from.
int64_t load_best_weights(const RunConfig& config, const TrainState& state, const RunFolder& folder,
                          Classifier& model, const Optimizer& optimizer) {
  if (!config.checkpoint.keep_best || !state.best || state.best->step == state.step) return state.step;
  const std::filesystem::path best = folder.path() / "checkpoints" / "best";
  read_tensors(best / "model.safetensors", named_tensors(model.parameters()));
  NamedTensors averages;
  for (const auto& [name, tensor] : optimizer.state()) {
    if (WeightAverage::is_average(name)) averages.push_back({name, tensor});
  }
  if (!averages.empty()) read_tensors(best / "optimizer.safetensors", averages);
  refresh_copies(model.parameters());
  return state.best->step;
}

/// details: what else is kept of the evaluations; null: nothing.
Json metrics_of(const Classifier& model, const Inputs& inputs, RunDetails* details) {
  Json metrics = Json::object();
  const auto evaluate_one = [&](const std::string& split, const std::string& name,
                                const DeviceDataset& dataset) {
    const bool has_answers = dataset.labels.defined() && inputs.task->labels().size() > 0;
    if (details == nullptr || !has_answers) return evaluate(model, dataset, *inputs.task);
    AnswerMeter answers = details->make_meter(dataset.device());
    Json values = evaluate(model, dataset, *inputs.task,
                           [&](const Answered& answered) { answers.add(answered.logits, answered.labels); });
    details->add_evaluation(split, name, dataset, answers.drain());
    return values;
  };
  const auto add = [&](const std::string& split, const std::map<std::string, DeviceDataset>& datasets) {
    for (const auto& [name, dataset] : datasets) {
      Json values = evaluate_one(split, name, dataset);
      if (datasets.size() == 1) {
        metrics[split] = std::move(values);
      } else {
        metrics[split][name] = std::move(values);
      }
    }
  };
  add("validation", inputs.validation);
  add("test", inputs.test);
  return metrics;
}

/// The part of summary.json that a run has whether or not it reached its end.
Json progress_summary(const Trainer& trainer, const OpenDevice& device, const ResolvedPrecision& precision) {
  const TrainState& state = trainer.state();
  const double seconds = std::max(state.train_seconds, 1e-9);
  return Json{
      {"steps", state.step},
      {"epochs", trainer.epoch()},
      {"train_seconds", state.train_seconds},
      {"first_step_seconds", trainer.first_step_seconds()},
      {"samples_per_second", static_cast<double>(state.rows_seen) / seconds},
      {"tokens_per_second", static_cast<double>(state.tokens_seen) / seconds},
      {"peak_memory_mb", static_cast<double>(device.services->memory(device.device).peak) / (1 << 20)},
      {"device", device.device.str()},
      {"precision", precision.name},
      {"world_size", 1}};
}

void write_summary(const RunFolder& folder, const Json& summary) {
  write_file_atomically(folder.path() / "summary.json", summary.dump(2) + "\n");
}

/// A finished run that is asked to go on but not to do more: says so and returns its summary.
std::optional<Json> finished_summary(const RunFolder& folder, const VerifiedCheckpoint& checkpoint,
                                     int64_t num_steps, const TrainConfig& config) {
  const auto path = folder.path() / "summary.json";
  const TrainState state = train_state_from(checkpoint.state.at("train"));
  const bool done = checkpoint.step >= num_steps || gains_no_more(state.evaluations_without_gain, config);
  if (!done || !std::filesystem::exists(path)) return std::nullopt;
  Json summary = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (summary.is_discarded() || summary.value("status", "") != "completed") return std::nullopt;
  spdlog::info("this run is finished: {} steps are done and the config asks for no more", checkpoint.step);
  return summary;
}

/// After the last step: evaluates the model that is kept, exports it and writes the summary.
Json finish(const RunConfig& config, const Inputs& inputs, const OpenDevice& device,
            const ResolvedPrecision& precision, Trainer& trainer, RunFolder& folder, Classifier& model,
            Optimizer& optimizer, RunDetails* details) {
  Json summary{{"status", "completed"}};
  summary.update(progress_summary(trainer, device, precision));
  summary["weights_sha256"] = tensors_sha256(named_tensors(model.parameters()));
  const int64_t step_of_model = load_best_weights(config, trainer.state(), folder, model, optimizer);
  const AveragedWeights averaged(optimizer);
  if (config.model.lora) {
    save_adapter(folder.path() / "adapter", config, model, *inputs.task);
    merge_adapters(model.parameters(), *config.model.lora);
  }
  summary["metrics"] = metrics_of(model, inputs, details);
  if (details != nullptr) details->write();
  summary["model_step"] = step_of_model;
  if (config.train.early_stopping) summary["stopped_early"] = trainer.stopped_early();
  if (trainer.state().best) {
    summary["best"] = Json{{"step", trainer.state().best->step},
                           {"metric", config.checkpoint.metric},
                           {"value", trainer.state().best->value}};
  }
  save_trained_model(folder.path() / "model", inputs.model_config, model.parameters(), *inputs.tokenizer,
                     *inputs.task, config, summary["metrics"]);
  trainer.log().write("end", Json{{"step", trainer.state().step}, {"status", "completed"}});
  write_summary(folder, summary);
  return summary;
}

/// What the report needs of the data, written down at once; nothing where there is to be no report.
std::optional<RunDetails> begin_details(const RunConfig& config, const Inputs& inputs,
                                        const RunFolder& folder) {
  if (!config.logging.html) return std::nullopt;
  RunDetails details(folder.path(), config, inputs);
  details.write();
  return details;
}

/// The config with what a Python script's optimizer decides, now or when the run began.
RunConfig adopt_settings(const RunConfig& requested, const RunFolder& folder,
                         const std::set<std::string>& given) {
  if (folder.python_checkpoint() != nullptr)
    return adopt_settings(requested, *folder.python_checkpoint(), given);
  if (folder.resume_point()) return keep_adopted_settings(requested, folder.resume_point()->state, given);
  return requested;
}

}  // namespace

Json run(const RunConfig& requested, const RunOptions& options) {
  const OpenDevice device = open_device(requested.device, requested.threads);
  RunFolder folder(requested, options);
  const PythonCheckpoint* python = folder.python_checkpoint();
  const RunConfig config = adopt_settings(requested, folder, options.given_keys);
  Inputs inputs = load_inputs(config, device.device);

  Batcher batcher = make_batcher(config, inputs, device.device);
  const int64_t num_steps = count_steps(config.train, batcher.steps_per_epoch());
  const ResolvedPrecision precision =
      resolve_precision(config.train.precision, device, saved_precision(folder.resume_point()));
  const Json environment = describe_environment(device);
  const RunIdentity identity = identify(config, inputs, num_steps, precision.name, environment);
  if (folder.resume_point()) {
    check_resume(folder.resume_point()->state, identity, options);
    if (auto summary = finished_summary(folder, *folder.resume_point(), num_steps, config.train))
      return *summary;
  }

  Classifier model = make_model(config, inputs, device.device, precision.activations);
  Optimizer optimizer = make_optimizer(config, model, num_steps, precision.scales_loss);
  choose_micro_batch(config, inputs, device.device, precision.activations, batcher);
  say_header(config, inputs, model, batcher, device, precision, environment, num_steps);

  Trainer trainer(
      {config, device, inputs, model, optimizer, batcher, folder, identity, precision, options.quiet});
  if (folder.resume_point()) {
    trainer.restore(*folder.resume_point());
    spdlog::info("resumed from step {} ({})", trainer.state().step,
                 folder.resume_point()->directory.filename().string());
  } else if (python != nullptr) {
    trainer.restore(*python);
    spdlog::info("goes on from {} after {} epochs", options.resume, trainer.state().first_epoch);
    folder.close_python_checkpoint();
  } else {
    load_initial_weights(config, model);
  }
  folder.begin();
  write_file_atomically(folder.path() / "config.json", to_json(config).dump(2) + "\n");
  std::filesystem::remove(folder.path() / "summary.json");
  trainer.open_log();
  std::optional<RunDetails> details = begin_details(config, inputs, folder);

  const auto write_unfinished = [&](const char* status) {
    Json summary{{"status", status}};
    summary.update(progress_summary(trainer, device, precision));
    try {
      write_summary(folder, summary);
    } catch (const std::system_error& error) {
      spdlog::warn("{}", error.what());  // what ended the run matters more
    }
    trainer.report().finish();
  };
  try {
    // From now on the run can be resumed by itself, whatever becomes of the checkpoint it comes from.
    if (python != nullptr || (folder.resume_point() && !folder.owns_resume_point())) trainer.save();
    trainer.train();
    const Json summary = finish(config, inputs, device, precision, trainer, folder, model, optimizer,
                                details ? &*details : nullptr);
    trainer.report().finish();
    return summary;
  } catch (const Interrupted&) {
    trainer.save();
    write_unfinished("interrupted");
    throw;
  } catch (const Error&) {
    write_unfinished("failed");
    throw;
  }
}

}  // namespace finetune
