#include "finetune/train/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <system_error>

#include "finetune/checkpoint/store.h"
#include "finetune/core/clock.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/device/available_memory.h"
#include "finetune/device/device.h"
#include "finetune/optim/schedule.h"
#include "finetune/train/evaluate.h"
#include "finetune/train/model_directory.h"
#include "finetune/train/precision.h"
#include "finetune/train/recipe.h"
#include "finetune/train/update.h"
#include "named_tensors.h"
#include "run_folder.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSteps = 5;
constexpr double kSecondsOfSteps = 5.0;

/// The nearest folder on the way to `path` that is there.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && path != path.root_path() && !fs::is_directory(path, ignored))
    path = path.parent_path();
  return path.empty() ? fs::path(".") : path;
}

/// Before anything takes time: whether a folder can be made there at all.
void check_output_dir(const fs::path& output_dir) {
  for (fs::path path = output_dir; path.has_relative_path(); path = path.parent_path()) {
    std::error_code ignored;
    if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) {
      throw ConfigError("output_dir " + output_dir.string() + " cannot be created: " + path.string() +
                        " is a file, expected a folder; choose another output_dir");
    }
  }
}

/// A folder beside the run's, so that it lies on the same disk; removed at the end, however that comes.
class ScratchFolder {
 public:
  explicit ScratchFolder(const fs::path& output_dir) {
    const fs::path parent = existing_part(output_dir);
    std::string pattern = (parent / ".finetune-dry-run-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw ConfigError("output_dir " + output_dir.string() + " cannot be created in " + parent.string() +
                        ": " + std::error_code(errno, std::generic_category()).message() +
                        "; choose a folder that can be written");
    }
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.is_symlink()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

/// How often an interval of the config comes in a run; its end counts as well.
int64_t times_in_run(const Interval& interval, const DryRun& report) {
  if (interval.never()) return 1;
  const double steps = interval.unit == Interval::Unit::kEpochs
                           ? interval.count * static_cast<double>(report.steps_per_epoch)
                           : interval.count;
  const int64_t every = std::max<int64_t>(1, std::llround(steps));
  return (report.num_steps + every - 1) / every;
}

/// Parts of a run that live as long as its rehearsal.
struct Rehearsal {
  const RunConfig& config;
  OpenDevice device;
  Inputs inputs;
  Batcher batcher;
  ResolvedPrecision precision;
  Classifier model;
  Optimizer optimizer;
  TrainMeter meter;
  Update update;

  Rehearsal(const RunConfig& run_config, OpenDevice open)
      : config(run_config),
        device(std::move(open)),
        inputs(load_inputs(config, device.device)),
        batcher(make_batcher(config, inputs, device.device)),
        precision(resolve_precision(config.train.precision, device, std::nullopt)),
        model(make_model(config, inputs, device.device, precision.activations)),
        optimizer(make_optimizer(config, model, count_steps(config.train, batcher.steps_per_epoch()),
                                 precision.scales_loss)),
        meter(device.device),
        update(model, *inputs.task, optimizer, meter, config.seed) {
    choose_micro_batch(config, inputs, device.device, precision.activations, batcher);
    load_initial_weights(config, model);
  }

  void synchronize() { device.services->synchronize(device.device); }

  /// One update, in micro-batches that are halved where memory runs out, as in the run. Returns its tokens.
  int64_t step(int64_t number) {
    while (true) {
      try {
        const StepBatch batch = batcher.at(number);
        update.begin(number, batch.label_weight);
        for (const Batch& micro_batch : batch.micro_batches) update.backward(update.forward(micro_batch));
        update.apply();
        return batch.num_tokens;
      } catch (const c10::OutOfMemoryError& error) {
        if (!config.train.micro_batch_size.automatic || !batcher.halve_micro_batches(number)) throw;
        update.discard();
        release_cached_memory(device.device);
      }
    }
  }
};

void rehearse_steps(Rehearsal& run, DryRun& report) {
  run.step(0);  // warms up what the first step of a process has to
  report.loss = TrainMeter::values(run.meter.start_read().wait()).loss;
  run.synchronize();
  int64_t tokens = 0;
  int64_t steps = 0;
  const double began = monotonic_seconds();
  double seconds = 0;
  do {
    throw_if_stop_requested();
    tokens += run.step(std::min(steps + 1, report.num_steps - 1));
    ++steps;
    run.synchronize();
    seconds = monotonic_seconds() - began;
  } while (steps < kMostSteps && seconds < kSecondsOfSteps);
  report.tokens_a_second = static_cast<double>(tokens) / seconds;
  // Batches differ in length: by their tokens the few tell more of all.
  const double tokens_a_step =
      std::accumulate(run.inputs.train.lengths.begin(), run.inputs.train.lengths.end(), 0.0) /
      static_cast<double>(report.steps_per_epoch);
  report.seconds_a_step = tokens_a_step / report.tokens_a_second;
  report.train_seconds = report.seconds_a_step * static_cast<double>(report.num_steps);
  report.peak_bytes = run.device.services->memory(run.device.device).peak;
}

/// Tokens a second of an evaluation, by one batch of `rows`.
double rehearse_evaluation(Rehearsal& run, const DeviceDataset& rows) {
  constexpr int64_t kMostTokens = 4096;
  constexpr int64_t kMostRows = 256;
  const at::NoGradGuard no_grad;
  std::vector<int64_t> order(static_cast<size_t>(std::min(kMostRows, rows.num_rows())));
  std::iota(order.begin(), order.end(), int64_t{0});
  const BatchSource source(
      rows, order,
      plan_batches(rows.lengths, order, 0, static_cast<int64_t>(order.size()), kMostRows, kMostTokens));
  const auto meter = run.inputs.task->make_meter(run.device.device);
  const double began = monotonic_seconds();
  const Batch batch = run.inputs.task->shown(source.batch(0), run.update.rng());
  const at::Tensor logits = run.model.forward(batch, ForwardMode{});
  meter->add(run.inputs.task->loss_sum(logits, batch.labels), logits, batch.labels, 1.0);
  run.synchronize();
  return static_cast<double>(batch.num_tokens) / (monotonic_seconds() - began);
}

void rehearse_evaluations(Rehearsal& run, DryRun& report) {
  double tokens_a_second = 0;
  const auto seconds = [&](const std::map<std::string, DeviceDataset>& splits) {
    double sum = 0;
    for (const auto& [name, rows] : splits) {
      if (tokens_a_second == 0) tokens_a_second = rehearse_evaluation(run, rows);
      sum += std::accumulate(rows.lengths.begin(), rows.lengths.end(), 0.0) / tokens_a_second;
    }
    return sum;
  };
  const double validation = seconds(run.inputs.validation);
  const double test = seconds(run.inputs.test);
  report.num_evaluations =
      run.inputs.validation.empty() ? 0 : times_in_run(run.config.train.eval_every, report);
  // The end measures the kept model on both.
  report.evaluation_seconds = validation * static_cast<double>(report.num_evaluations + 1) + test;
}

void rehearse_saving(Rehearsal& run, DryRun& report) {
  const CheckpointConfig& checkpoint = run.config.checkpoint;
  const ScratchFolder scratch(run.config.output_dir);
  Snapshot snapshot{
      .step = 1, .model = named_tensors(run.model.parameters()), .optimizer = {}, .state = Json::object()};
  for (auto& [name, tensor] : run.optimizer.state()) snapshot.optimizer.push_back({name, tensor});
  snapshot.optimizer.push_back({"train_meter", run.meter.sums()});
  const double began = monotonic_seconds();
  CheckpointStore store(scratch.path() / "checkpoints", {.keep_last = 1, .keep_best = false});
  store.save(snapshot, /*is_best=*/false);
  const double seconds = monotonic_seconds() - began;
  verify_checkpoint(scratch.path() / "checkpoints" / "step-00000001");
  report.checkpoint_bytes = bytes_in(scratch.path() / "checkpoints");
  save_trained_model(scratch.path() / "model", run.inputs.model_config, run.model.parameters(),
                     *run.inputs.tokenizer, *run.inputs.task, run.config, Json::object());
  report.model_bytes = bytes_in(scratch.path() / "model");

  report.num_saves = times_in_run(checkpoint.save_every, report);
  report.save_seconds = seconds * static_cast<double>(report.num_saves + 1);
  const bool best = checkpoint.keep_best && !run.inputs.validation.empty();
  // While one is written, those that it will replace are still there.
  const int64_t kept = std::min(checkpoint.keep_last, report.num_saves) + (best ? 1 : 0) + 1;
  report.disk_bytes = report.checkpoint_bytes * kept + report.model_bytes;
  std::error_code error;
  const auto space = fs::space(existing_part(run.config.output_dir), error);
  if (!error)
    report.disk_free = static_cast<int64_t>(space.available) + report.checkpoint_bytes + report.model_bytes;
}

void look_for_problems(const RunConfig& config, const RunOptions& options, DryRun& report) {
  const fs::path& folder = config.output_dir;
  if (holds_a_run(folder) && options.resume == "never" && !options.overwrite) {
    report.problems.push_back(
        folder.string() +
        " already holds a run; the run itself needs --resume auto, --overwrite, or another output_dir");
  }
  if (report.disk_free && report.disk_bytes > *report.disk_free) {
    report.problems.push_back("the disk has " + bytes_text(*report.disk_free) + " free, the run needs " +
                              bytes_text(report.disk_bytes) +
                              "; free some, lower checkpoint.keep_last, or choose another output_dir");
  }
  if (report.available && report.plan.total() > *report.available) {
    report.problems.push_back(
        "the memory plan is larger than what is free; lower train.micro_batch_size or data.max_length");
  }
  if (!std::isfinite(report.loss)) {
    report.problems.push_back("the loss of the first update is not finite; try train.precision \"fp32\"");
  }
}

std::string seconds_text(double seconds) {
  char text[32];
  if (seconds < 1) {
    std::snprintf(text, sizeof(text), "%.0f ms", 1000 * seconds);
  } else if (seconds < 120) {
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  } else if (seconds < 7200) {
    std::snprintf(text, sizeof(text), "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof(text), "%.1f h", seconds / 3600);
  }
  return text;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

}  // namespace

DryRun dry_run(const RunConfig& config, const RunOptions& options) {
  check_output_dir(config.output_dir);
  Rehearsal run(config, open_device(config.device, config.threads));
  DryRun report;
  report.device = run.device.device.str();
  report.precision = run.precision.name;
  report.num_labels = run.inputs.task->labels().size();
  report.data = run.inputs.description;
  report.steps_per_epoch = run.batcher.steps_per_epoch();
  report.num_steps = count_steps(config.train, report.steps_per_epoch);
  report.batch_size = config.train.batch_size;
  report.epochs = static_cast<double>(report.num_steps) / static_cast<double>(report.steps_per_epoch);
  report.available = available_memory(run.device.device);
  report.plan = plan_memory(config, run.inputs, run.model, run.batcher);
  rehearse_steps(run, report);
  rehearse_evaluations(run, report);
  rehearse_saving(run, report);
  look_for_problems(config, options, report);
  return report;
}

std::string to_text(const DryRun& report) {
  std::string text = "device: " + report.device + ", " + report.precision + "\n";
  for (const auto& [split, counts] : report.data.items()) {
    text += split + ": " + with_thousands(counts.at("rows").get<int64_t>()) + " rows, " +
            with_thousands(counts.at("tokens").get<int64_t>()) + " tokens, " +
            with_thousands(counts.at("truncated").get<int64_t>()) + " truncated rows\n";
  }
  text += "steps: " + with_thousands(report.num_steps) + " of " + with_thousands(report.batch_size) +
          " rows, " + with_thousands(report.steps_per_epoch) + " an epoch, " + number_text(report.epochs) +
          " epochs; " + std::to_string(report.num_labels) + " labels\n";
  text += "memory: " + to_text(report.plan, report.available) + "; the steps needed " +
          bytes_text(report.peak_bytes) + " at most\n";
  text += "first loss: " + number_text(report.loss) + "\n";
  text += "a step: " + seconds_text(report.seconds_a_step) + " (" +
          with_thousands(std::llround(report.tokens_a_second)) + " tokens a second)\n";
  text += "disk: " + bytes_text(report.checkpoint_bytes) + " a checkpoint, " +
          bytes_text(report.model_bytes) + " the model, " + bytes_text(report.disk_bytes) + " at most" +
          (report.disk_free ? " of " + bytes_text(*report.disk_free) + " free" : "") + "\n";
  text += "time: about " + seconds_text(report.total_seconds()) + " (training " +
          seconds_text(report.train_seconds) + ", " + std::to_string(report.num_evaluations) +
          " evaluations and the last " + seconds_text(report.evaluation_seconds) + ", " +
          std::to_string(report.num_saves) + " saves " + seconds_text(report.save_seconds) + ")\n";
  for (const std::string& problem : report.problems) text += "problem: " + problem + "\n";
  return text + (report.problems.empty() ? "everything works; nothing was left behind\n" : "");
}

}  // namespace finetune
