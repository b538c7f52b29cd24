#include "trainer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "finetune/core/clock.h"
#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/train/evaluate.h"
#include "named_tensors.h"

namespace finetune {
namespace {

int64_t steps_of(const Interval& interval, int64_t steps_per_epoch) {
  if (interval.never()) return 0;
  const double steps = interval.unit == Interval::Unit::kEpochs
                           ? interval.count * static_cast<double>(steps_per_epoch)
                           : interval.count;
  return std::max<int64_t>(1, std::llround(steps));
}

/// No update fits float16 any more: what training libraries call diverged (fairseq's min_loss_scale).
constexpr double kSmallestLossScale = 1e-4;

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
                 .save = steps_of(parts.config.checkpoint.save_every, parts.batcher.steps_per_epoch())},
      meter_(parts.device.device),
      progress_(parts.quiet),
      watch_(0),
      last_loss_(NAN) {
  rng_ = at::tensor(at::ArrayRef<int64_t>({static_cast<int64_t>(parts.config.seed), 0}), at::kLong)
             .to(parts.device.device);
}

void Trainer::restore(const VerifiedCheckpoint& checkpoint) {
  Snapshot live = snapshot();
  restore_tensors(checkpoint, live.model, live.optimizer);
  state_ = train_state_from(checkpoint.state.at("train"));
  refresh_copies(parts_.model.parameters());
  log_length_ = checkpoint.state.at("log_bytes").get<int64_t>();
  watch_ = Stopwatch(state_.train_seconds);
  if (parts_.folder.owns_resume_point()) {
    saved_step_ = state_.step;
  } else if (state_.best && state_.best->step != state_.step) {
    state_.best.reset();  // its weights lie in the other run's folder
  }
}

void Trainer::open_log() {
  const bool resumed = state_.step > 0;
  log_ = std::make_unique<RunLog>(parts_.folder.path() / "metrics.jsonl", resumed ? log_length_ : 0);
  Json fields{{"time", utc_timestamp()}, {"step", state_.step}};
  fields.update(parts_.identity.environment);
  fields.update(Json{{"world_size", 1},
                     {"precision", parts_.precision.name},
                     {"num_steps", parts_.identity.num_steps},
                     {"data", parts_.inputs.description}});
  log_->write(resumed ? "resume" : "start", fields);
}

void Trainer::train() {
  watch_.start();
  interval_started_ = watch_.seconds();
  // The work that belongs to a step comes before the next one, so a run resumed in between does it too.
  while (true) {
    const bool at_end = last_step();
    if (state_.evaluated != state_.step && (due(state_.step, intervals_.evaluate) || at_end))
      evaluate_and_keep_best();
    if (due(state_.step, intervals_.save) || at_end || take_save_request()) save();
    if (at_end) break;
    throw_if_stop_requested();
    step();
    report_step();
  }
  watch_.pause();
  state_.train_seconds = watch_.seconds();
  progress_.clear();
}

void Trainer::step() {
  const NoHostReads no_host_reads(*parts_.device.services);
  const double began = monotonic_seconds();
  const StepBatch batch = parts_.batcher.at(state_.step);
  interval_data_seconds_ += monotonic_seconds() - began;
  rng_.select(0, 1).fill_(state_.step);
  backward(batch);
  const UpdateStats update = parts_.optimizer.step();
  meter_.add_update(update.grad_norm, update.nonfinite, update.learning_rate, update.loss_scale);
  ++state_.step;
  state_.rows_seen += static_cast<int64_t>(batch.rows.size());
  state_.tokens_seen += batch.num_tokens;
  interval_rows_ += static_cast<int64_t>(batch.rows.size());
  interval_tokens_ += batch.num_tokens;
  if (first_step_seconds_ == 0) {
    parts_.device.services->synchronize(parts_.device.device);  // once a process: the figure people compare
    first_step_seconds_ = seconds_since_process_start();
  }
}

void Trainer::backward(const StepBatch& batch) {
  const double divisor = batch.label_weight > 0 ? batch.label_weight : 1.0;
  const ForwardMode mode{.training = true, .rng = rng_};
  for (const Batch& micro_batch : batch.micro_batches) {
    const auto logits = parts_.model.forward(micro_batch, mode);
    const auto loss_sum = parts_.inputs.task->loss_sum(logits, micro_batch.labels);
    parts_.optimizer.scaled(loss_sum / divisor).backward();
    meter_.add_loss(loss_sum.detach());
  }
  meter_.add_weight(batch.label_weight);
}

void Trainer::report_step() {
  const bool log_due = due(state_.step, intervals_.log) || last_step();
  const bool epoch_ends = state_.step % parts_.batcher.steps_per_epoch() == 0;
  if (log_due || epoch_ends) {
    const TrainMeter::Values values = meter_.read();
    if (log_due) {
      log_train_event(values);
      meter_.begin_interval();
    }
    if (epoch_ends) {
      log_->write("epoch", Json{{"step", state_.step}, {"epoch", epoch()}, {"loss", values.epoch_loss}});
      meter_.begin_epoch();
    }
    if (log_due) handle_nonfinite(values);
  }
  progress_.update(progress_state());
}

void Trainer::log_train_event(const TrainMeter::Values& values) {
  const double seconds = std::max(watch_.seconds() - interval_started_, 1e-9);
  const MemoryStats memory = parts_.device.services->memory(parts_.device.device);
  constexpr double kMegabyte = 1 << 20;
  last_loss_ = values.loss;
  Json event{{"step", state_.step},
             {"epoch", epoch()},
             {"loss", values.loss},
             {"learning_rate", values.learning_rate},
             {"grad_norm", values.grad_norm},
             {"skipped_updates", values.nonfinite},
             {"tokens_per_second", static_cast<double>(interval_tokens_) / seconds},
             {"samples_per_second", static_cast<double>(interval_rows_) / seconds},
             {"data_wait_fraction", interval_data_seconds_ / seconds},
             {"memory_allocated_mb", static_cast<double>(memory.allocated) / kMegabyte},
             {"memory_reserved_mb", static_cast<double>(memory.reserved) / kMegabyte},
             {"memory_peak_mb", static_cast<double>(memory.peak) / kMegabyte}};
  if (parts_.precision.scales_loss) event["loss_scale"] = values.loss_scale;
  log_->write("train", event);
  progress_.log_point(progress_state());
  interval_started_ = watch_.seconds();
  interval_data_seconds_ = 0;
  interval_rows_ = interval_tokens_ = 0;
}

void Trainer::handle_nonfinite(const TrainMeter::Values& values) const {
  if (values.nonfinite == 0) return;
  if (parts_.precision.scales_loss) {  // an overflow now and then is how the scale is found
    if (values.loss_scale >= kSmallestLossScale) return;
    throw DivergenceError("the gradients overflow fp16 even with the loss scaled by " +
                          std::to_string(values.loss_scale) + ", at step " + std::to_string(state_.step) +
                          "; use train.precision bf16 or fp32, or lower optimizer.learning_rate");
  }
  const std::string what = std::to_string(values.nonfinite) + " update(s) up to step " +
                           std::to_string(state_.step) +
                           " had gradients that are not finite and were skipped";
  if (parts_.config.train.on_nonfinite == OnNonfinite::kAbort) {
    throw DivergenceError(what +
                          "; lower optimizer.learning_rate or lengthen schedule.warmup, or set "
                          "train.on_nonfinite to \"skip\" to go on all the same");
  }
  spdlog::warn("{}", what);
}

double Trainer::epoch() const {
  return static_cast<double>(state_.step) / static_cast<double>(parts_.batcher.steps_per_epoch());
}

ProgressState Trainer::progress_state() const {
  const auto steps_per_epoch = static_cast<double>(parts_.batcher.steps_per_epoch());
  return {.step = state_.step,
          .num_steps = parts_.identity.num_steps,
          .epoch = epoch(),
          .num_epochs = static_cast<double>(parts_.identity.num_steps) / steps_per_epoch,
          .loss = last_loss_,
          .samples_per_second = static_cast<double>(state_.rows_seen) / std::max(watch_.seconds(), 1e-9)};
}

void Trainer::evaluate_and_keep_best() {
  watch_.pause();
  // Everything is evaluated before anything is logged: a stop in between leaves no half of an evaluation in
  // the log.
  std::vector<std::pair<std::string, Json>> results;
  for (const auto& [name, dataset] : parts_.inputs.validation) {
    results.emplace_back(name, evaluate(parts_.model, dataset, *parts_.inputs.task));
    results.back().second.erase("confusion");
  }
  progress_.clear();
  for (const auto& [name, metrics] : results) {
    Json fields{{"split", name}, {"step", state_.step}};
    fields.update(metrics);
    log_->write("eval", fields);
    spdlog::info("step {}: {} loss {:.4f}, accuracy {:.4f}, macro F1 {:.4f}", state_.step, name,
                 metrics.at("loss").get<double>(), metrics.at("accuracy").get<double>(),
                 metrics.at("macro_f1").get<double>());
  }
  state_.evaluated = state_.step;
  double value = 0;
  if (!results.empty() &&
      improves(results.front().second, &value)) {  // several validation files: the first decides
    state_.best = BestResult{state_.step, value, results.front().second};
    saved_step_ = -1;  // a step that was saved before it was evaluated is not yet linked as the best
    if (parts_.config.checkpoint.keep_best) save();
  }
  watch_.start();
}

bool Trainer::improves(const Json& metrics, double* value) const {
  const auto& checkpoint = parts_.config.checkpoint;
  const auto found = metrics.find(checkpoint.metric);
  if (found == metrics.end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : metrics.items()) names.push_back(name);
    throw ConfigError("checkpoint.metric: found '" + checkpoint.metric + "', expected one of " +
                      join_some(names));
  }
  *value = found->get<double>();
  const bool smaller_is_better =
      checkpoint.mode == "min" || (checkpoint.mode == "auto" && checkpoint.metric == "loss");
  return !state_.best || (smaller_is_better ? *value < state_.best->value : *value > state_.best->value);
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
  watch_.pause();
  state_.train_seconds = watch_.seconds();
  const double began = monotonic_seconds();
  Snapshot current = snapshot();
  current.state = to_json(parts_.identity);
  current.state["train"] = to_json(state_);
  current.state["log_bytes"] = log_->sync();
  parts_.folder.store().save(current, state_.best && state_.best->step == state_.step);
  saved_step_ = state_.step;
  log_->write("save", Json{{"step", state_.step}, {"seconds", monotonic_seconds() - began}});
  if (was_running) watch_.start();
}

}  // namespace finetune
