#include "trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>
#include <utility>

#include "finetune/core/clock.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/device/available_memory.h"
#include "finetune/device/product_rate.h"
#include "finetune/device/transfer.h"
#include "finetune/report/headline.h"
#include "finetune/train/evaluate.h"
#include "finetune/train/memory_plan.h"
#include "finetune/train/recipe.h"
#include "flops.h"
#include "named_tensors.h"
#include "python_resume.h"

namespace finetune {
namespace {

int64_t steps_of(const Interval& interval, int64_t steps_per_epoch) {
  if (interval.never()) return 0;
  const double steps = interval.unit == Interval::Unit::kEpochs
                           ? interval.count * static_cast<double>(steps_per_epoch)
                           : interval.count;
  return std::max<int64_t>(1, std::llround(steps));
}

bool due(int64_t step, int64_t every) { return every > 0 && step > 0 && step % every == 0; }

}  // namespace

void Stopwatch::start() {
  if (started_ < 0) started_ = monotonic_seconds();
}

void Stopwatch::pause() {
  seconds_ = seconds();
  started_ = -1;
}

double Stopwatch::seconds() const {
  return started_ < 0 ? seconds_ : seconds_ + monotonic_seconds() - started_;
}

Trainer::Trainer(const Parts& parts)
    : parts_(parts),
      intervals_{.evaluate = steps_of(parts.config.train.eval_every, parts.batcher.steps_per_epoch()),
                 .log = steps_of(parts.config.train.log_every, parts.batcher.steps_per_epoch()),
                 .save = steps_of(parts.config.checkpoint.save_every, parts.batcher.steps_per_epoch()),
                 .unfreeze = parts.config.model.unfreeze ? steps_of(parts.config.model.unfreeze->every,
                                                                    parts.batcher.steps_per_epoch())
                                                         : 0},
      meter_(parts.device.device),
      update_(parts.model, *parts.inputs.task, parts.optimizer, meter_, parts.config.seed),
      recorded_(update_, parts.device, parts.config.train.cuda_graphs, parts.config.task.ignore_index),
      report_(parts.folder.path(), parts.config.logging.html),
      watch_(0) {
  if (parts.config.train.micro_batch_size.automatic) {
    state_.micro_batch_tokens = parts.batcher.micro_batch_tokens();
  }
}

void Trainer::restore(const VerifiedCheckpoint& checkpoint) {
  Snapshot live = snapshot();
  restore_tensors(checkpoint, live.model, live.optimizer);
  state_ = train_state_from(checkpoint.state.at("train"));
  refresh_copies(parts_.model.parameters());
  log_length_ = checkpoint.state.at("log_bytes").get<int64_t>();
  watch_ = Stopwatch(state_.train_seconds);
  if (parts_.config.train.micro_batch_size.automatic) {
    if (state_.micro_batch_tokens > 0) parts_.batcher.set_micro_batch_tokens(state_.micro_batch_tokens);
    state_.micro_batch_tokens = parts_.batcher.micro_batch_tokens();
  } else {
    state_.micro_batch_tokens = 0;
  }
  if (parts_.folder.owns_resume_point()) {
    saved_step_ = state_.step;
  } else if (state_.best && state_.best->step != state_.step) {
    state_.best.reset();  // its weights lie in the other run's folder
  }
}

void Trainer::restore(const PythonCheckpoint& checkpoint) {
  state_.source = restore_python(checkpoint, parts_.config, parts_.model, parts_.optimizer);
  state_.first_epoch = checkpoint.epoch.value_or(0);
}

void Trainer::open_log() {
  const bool resumed = state_.step > 0;
  log_ = std::make_unique<StepLog>(
      parts_.device, StepLog::Options{.file = parts_.folder.path() / "metrics.jsonl",
                                      .length = resumed ? log_length_ : 0,
                                      .on_nonfinite = parts_.config.train.on_nonfinite,
                                      .scales_loss = parts_.precision.scales_loss,
                                      .quiet = parts_.quiet,
                                      .tensorboard = parts_.config.logging.tensorboard,
                                      .resumed_at = resumed ? std::optional(state_.step) : std::nullopt});
  Json fields{{"time", utc_timestamp()}, {"step", state_.step}};
  fields.update(parts_.identity.environment);
  fields.update(Json{{"world_size", 1},
                     {"precision", parts_.precision.name},
                     {"num_steps", parts_.identity.num_steps},
                     {"micro_batch_tokens", state_.micro_batch_tokens},
                     {"data", parts_.inputs.description}});
  if (!state_.source.is_null()) {
    fields["resumed_from"] = state_.source.at("file");
    fields["first_epoch"] = state_.first_epoch;
  }
  log_->write(resumed ? "resume" : "start", fields);
}

void Trainer::train() {
  try {
    train_to_the_end();
  } catch (const c10::OutOfMemoryError& error) {
    give_up(error.what_without_backtrace());
  }
}

void Trainer::train_to_the_end() {
  watch_.start();
  log_->begin_interval(watch_.seconds());
  // The work that belongs to a step comes before the next one, so a run resumed in between does it too.
  while (true) {
    if (state_.evaluated != state_.step && (due(state_.step, intervals_.evaluate) || last_step()))
      evaluate_and_keep_best();
    const bool at_end = last_step() || stopped_early();
    if (due(state_.step, intervals_.save) || at_end || take_save_request()) save();
    if (at_end) break;
    if (stop_request() != StopRequest::kNone) pause_clock();
    throw_if_stop_requested();
    step();
    report_step();
  }
  pause_clock();
  log_->clear_progress();
}

void Trainer::pause_clock() {
  // What the device still has to do of the steps before belongs to them.
  parts_.device.services->synchronize(parts_.device.device);
  watch_.pause();
  state_.train_seconds = watch_.seconds();
  log_->poll();
}

/// Lets the layers learn that the step to come reaches, where they begin one after the other.
void Trainer::unfreeze() {
  const int64_t depth = learning_depth(state_.step, intervals_.unfreeze);
  if (depth == std::exchange(learning_depth_, depth) || intervals_.unfreeze == 0) return;
  std::vector<std::string> names;
  for (const Parameter& parameter : parts_.model.parameters()) names.push_back(parameter.name);
  const std::vector<int64_t> depths = depths_of(names);
  std::set<std::string> learning;
  for (size_t i = 0; i < names.size(); ++i) {
    if (depths[i] <= depth) learning.insert(names[i]);
  }
  parts_.model.let_learn([&](const std::string& name) { return learning.contains(name); });
  parts_.optimizer.learn_down_to(depth);
  recorded_.forget();
}

void Trainer::step() {
  unfreeze();
  while (const auto problem = try_update()) make_room(*problem);
  ++steps_done_;
  if (first_step_seconds_ == 0) {
    parts_.device.services->synchronize(parts_.device.device);  // once a process: the figure people compare
    first_step_seconds_ = seconds_since_process_start();
  }
  settle_residency();
}

/// One update. Where memory runs out before anything is changed: what was said about it.
std::optional<std::string> Trainer::try_update() {
  const NoHostReads no_host_reads(*parts_.device.services);
  StepBatch batch;
  double data_seconds = 0;
  try {
    const double began = monotonic_seconds();
    batch = parts_.batcher.at(state_.step);
    data_seconds = monotonic_seconds() - began;
    update_.begin(state_.step, batch.label_weight);
    for (const Batch& micro_batch : batch.micro_batches) {
      recorded_.accumulate(micro_batch, parts_.batcher.micro_batch_rows());
      most_tokens_at_once_ = std::max(most_tokens_at_once_, micro_batch.num_tokens);
    }
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  recorded_.apply();
  ++state_.step;
  state_.rows_seen += static_cast<int64_t>(batch.rows.size());
  state_.tokens_seen += batch.num_tokens;
  log_->count_step(static_cast<int64_t>(batch.rows.size()), batch.num_tokens, data_seconds, flops_of(batch));
  return std::nullopt;
}

/// Halves the micro-batch, so that the update can be done anew. Nothing is lost: dropout is counted, so what
/// is done anew gives the same numbers but for the order of sums.
void Trainer::make_room(const std::string& problem) {
  const bool may_halve = parts_.config.train.micro_batch_size.automatic;
  if (!may_halve || !parts_.batcher.halve_micro_batches(state_.step)) give_up(problem);
  recorded_.stop("memory ran out");
  update_.discard();
  release_cached_memory(parts_.device.device);
  state_.micro_batch_tokens = parts_.batcher.micro_batch_tokens();
  log_->write("micro_batch", Json{{"step", state_.step}, {"micro_batch_tokens", state_.micro_batch_tokens}});
  log_->clear_progress();
  spdlog::warn("step {}: {}; a forward pass takes at most {} tokens from now on (train.micro_batch_size)",
               state_.step + 1, problem, with_thousands(state_.micro_batch_tokens));
}

void Trainer::give_up(const std::string& problem) const {
  const MemoryPlan plan = plan_memory(parts_.config, parts_.inputs, parts_.model, parts_.batcher);
  const MemoryStats memory = parts_.device.services->memory(parts_.device.device);
  const char* remedy =
      parts_.config.train.micro_batch_size.automatic
          ? "set model.activation_checkpointing, lower data.max_length, or take a smaller model"
          : "lower train.micro_batch_size or set it to \"auto\", or lower data.max_length";
  throw DeviceError("step " + std::to_string(state_.step + 1) + ": " + problem + "\na step needs " +
                    to_text(plan, available_memory(parts_.device.device)) + "; " +
                    bytes_text(memory.allocated) + " are in use, at most " + bytes_text(memory.peak) +
                    " were\n" + remedy);
}

/// Streamed rows move to the device for good once the first steps have shown that they fit beside the largest
/// step.
void Trainer::settle_residency() {
  constexpr int64_t kStepsThatShow = 2;
  Batcher& batcher = parts_.batcher;
  if (steps_done_ != kStepsThatShow || !batcher.streamed()) return;
  if (parts_.config.data.residency != Residency::kAuto) return;
  const Inputs& inputs = parts_.inputs;
  const c10::Device device = parts_.device.device;
  const MemoryStats memory = parts_.device.services->memory(device);
  const double largest = static_cast<double>(
      largest_micro_batch(inputs.train.lengths, batcher.micro_batch_rows(), batcher.micro_batch_tokens()));
  const double of_a_step = static_cast<double>(memory.peak - memory.allocated) * largest /
                           static_cast<double>(most_tokens_at_once_);
  const double left = static_cast<double>(available_memory(device).value_or(0)) - of_a_step;
  const int64_t data_bytes = inputs.train.nbytes();
  const bool fits = static_cast<double>(data_bytes) * 1.05 < left;
  spdlog::info("data: {} of training rows {}", bytes_text(data_bytes),
               fits ? "fit on the device beside the largest step and move there"
                    : "do not fit on the device beside the largest step and are streamed");
  if (!fits) return;
  try {
    batcher.make_resident();
  } catch (const c10::OutOfMemoryError& error) {
    spdlog::warn("data: they go on being streamed, for {}", error.what_without_backtrace());
  }
}

double Trainer::flops_of(const StepBatch& batch) const {
  double squared_lengths = 0;
  for (const int64_t row : batch.rows) {
    const double length = parts_.inputs.train.lengths[static_cast<size_t>(row)];
    squared_lengths += length * length;
  }
  int64_t num_tokens_read = 0;
  for (const Batch& micro_batch : batch.micro_batches) {
    num_tokens_read += parts_.model.num_tokens_read(micro_batch);
  }
  return training_flops(parts_.inputs.encoder, batch.num_tokens, num_tokens_read, squared_lengths);
}

/// Before the first log point rather than before the first step, which people wait for; in memory that the
/// steps before needed, so that the peak stays theirs.
void Trainer::measure_product_rate_once() {
  if (std::exchange(product_rate_measured_, true)) return;
  pause_clock();
  const c10::Device device = parts_.device.device;
  const MemoryStats memory = parts_.device.services->memory(device);
  constexpr int64_t kOnTheCpu = 16 << 20;
  log_->set_product_rate(measure_product_rate(parts_.device, parts_.precision.activations,
                                              device.is_cpu() ? kOnTheCpu : memory.peak - memory.allocated));
  watch_.start();
}

void Trainer::report_step() {
  const bool log_due = due(state_.step, intervals_.log) || last_step();
  const bool epoch_ends = state_.step % parts_.batcher.steps_per_epoch() == 0;
  if (log_due) measure_product_rate_once();
  if (log_due || epoch_ends) {
    log_->add({.progress = progress_state(),
               .interval_ends = log_due,
               .epoch_ends = epoch_ends,
               .train_seconds = watch_.seconds()},
              meter_);
  }
  log_->poll();
  log_->show(progress_state());
}

double Trainer::epoch() const {
  return static_cast<double>(state_.first_epoch) +
         static_cast<double>(state_.step) / static_cast<double>(parts_.batcher.steps_per_epoch());
}

ProgressState Trainer::progress_state() const {
  const auto steps_per_epoch = static_cast<double>(parts_.batcher.steps_per_epoch());
  return {.step = state_.step,
          .num_steps = parts_.identity.num_steps,
          .epoch = epoch(),
          .num_epochs = static_cast<double>(state_.first_epoch) +
                        static_cast<double>(parts_.identity.num_steps) / steps_per_epoch,
          .loss = NAN,
          .samples_per_second = static_cast<double>(state_.rows_seen) / std::max(watch_.seconds(), 1e-9)};
}

void Trainer::evaluate_and_keep_best() {
  pause_clock();
  // Everything is evaluated before anything is logged: a stop in between leaves no half of an evaluation in
  // the log.
  std::vector<std::pair<std::string, Json>> results;
  {
    const AveragedWeights averaged(parts_.optimizer);
    for (const auto& [name, dataset] : parts_.inputs.validation) {
      results.emplace_back(name, evaluate(parts_.model, dataset, *parts_.inputs.task));
      for (const char* table : {"confusion", "per_class", "per_type"}) results.back().second.erase(table);
    }
  }
  log_->clear_progress();
  for (const auto& [name, metrics] : results) {
    Json fields{{"split", name}, {"step", state_.step}};
    fields.update(metrics);
    log_->write("eval", fields);
    spdlog::info("step {}: {} {}", state_.step, name, headline(metrics));
  }
  report_.refresh();
  state_.evaluated = state_.step;
  if (!results.empty()) keep_if_best(results.front().second);  // several validation files: the first decides
  watch_.start();
}

void Trainer::keep_if_best(const Json& metrics) {
  const double value = metric_of(metrics);
  const bool gains =
      !state_.best ||
      is_better(value, *state_.best, parts_.config.train.early_stopping.value_or(EarlyStopping{}).min_delta);
  state_.evaluations_without_gain = gains ? 0 : state_.evaluations_without_gain + 1;
  if (!state_.best || is_better(value, *state_.best)) {
    state_.best = BestResult{state_.step, value, metrics};
    saved_step_ = -1;  // a step that was saved before it was evaluated is not yet linked as the best
    if (parts_.config.checkpoint.keep_best) save();
  }
  if (stopped_early()) {
    spdlog::info("training ends early: {} has not gained in {} evaluations (train.early_stopping)",
                 parts_.config.checkpoint.metric, state_.evaluations_without_gain);
  }
}

bool Trainer::stopped_early() const {
  return gains_no_more(state_.evaluations_without_gain, parts_.config.train);
}

double Trainer::metric_of(const Json& metrics) const {
  const auto& checkpoint = parts_.config.checkpoint;
  const auto found = metrics.find(checkpoint.metric);
  if (found == metrics.end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : metrics.items()) names.push_back(name);
    throw ConfigError("checkpoint.metric: found '" + checkpoint.metric + "', expected one of " +
                      join_some(names));
  }
  return found->get<double>();
}

/// Whether a value beats the best one by more than `margin`.
bool Trainer::is_better(double value, const BestResult& best, double margin) const {
  const auto& checkpoint = parts_.config.checkpoint;
  const bool is_error = checkpoint.metric == "loss" || checkpoint.metric == "perplexity" ||
                        checkpoint.metric == "mse" || checkpoint.metric == "mae";
  const bool smaller_is_better = checkpoint.mode == "min" || (checkpoint.mode == "auto" && is_error);
  return (smaller_is_better ? best.value - value : value - best.value) > margin;
}

bool gains_no_more(int64_t evaluations_without_gain, const TrainConfig& config) {
  return config.early_stopping && evaluations_without_gain >= config.early_stopping->patience;
}

Snapshot Trainer::snapshot() {
  Snapshot result{
      .step = state_.step, .model = named_tensors(parts_.model.parameters()), .optimizer = {}, .state = {}};
  for (auto& [name, tensor] : parts_.optimizer.state()) result.optimizer.push_back({name, tensor});
  result.optimizer.push_back({"train_meter", meter_.sums()});
  return result;
}

void Trainer::save() {
  if (saved_step_ == state_.step) return;
  const bool was_running = watch_.running();
  pause_clock();
  const double began = monotonic_seconds();
  Snapshot current = snapshot();
  current.state = to_json(parts_.identity);
  current.state["train"] = to_json(state_);
  current.state["epoch"] = epoch();
  for (const auto& [name, unused] : current.model) current.state["parameters"].push_back(name);
  current.state["log_bytes"] = log_->sync();
  parts_.folder.store().save(current, state_.best && state_.best->step == state_.step);
  saved_step_ = state_.step;
  log_->write("save", Json{{"step", state_.step}, {"seconds", monotonic_seconds() - began}});
  if (was_running) watch_.start();
}

}  // namespace finetune
