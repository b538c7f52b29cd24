#include "step_log.h"

#include <algorithm>
#include <cmath>

#include "finetune/core/error.h"
#include "finetune/core/log.h"

namespace finetune {
namespace {

/// No update fits float16 any more: what training libraries call diverged (fairseq's min_loss_scale).
constexpr double kSmallestLossScale = 1e-4;

}  // namespace

StepLog::StepLog(const OpenDevice& device, const Options& options)
    : device_(device),
      on_nonfinite_(options.on_nonfinite),
      scales_loss_(options.scales_loss),
      file_(options.file, options.length),
      progress_(options.quiet),
      last_loss_(NAN) {
  if (!options.tensorboard) return;
  // What is logged from here on belongs to the steps after the one that the run resumed at.
  std::optional<int64_t> first_step;
  if (options.resumed_at) first_step = *options.resumed_at + 1;
  events_.emplace(options.file.parent_path(), first_step);
}

void StepLog::count_step(int64_t num_rows, int64_t num_tokens, double data_seconds, double flops) {
  interval_rows_ += num_rows;
  interval_tokens_ += num_tokens;
  interval_data_seconds_ += data_seconds;
  interval_flops_ += flops;
}

void StepLog::begin_interval(double train_seconds) {
  interval_started_ = train_seconds;
  interval_data_seconds_ = interval_flops_ = 0;
  interval_rows_ = interval_tokens_ = 0;
}

void StepLog::add(const Point& point, TrainMeter& meter) {
  pending_.push_back({.point = point,
                      .sums = meter.start_read(),
                      .rates = point.interval_ends ? rates(point.train_seconds) : Json()});
  if (point.interval_ends) {
    meter.begin_interval();
    begin_interval(point.train_seconds);
  }
  if (point.epoch_ends) meter.begin_epoch();
}

Json StepLog::rates(double train_seconds) const {
  const double seconds = std::max(train_seconds - interval_started_, 1e-9);
  const MemoryStats memory = device_.services->memory(device_.device);
  const DeviceUse use = device_.services->use(device_.device);
  constexpr double kMegabyte = 1 << 20;
  Json fields{{"tokens_per_second", static_cast<double>(interval_tokens_) / seconds},
              {"samples_per_second", static_cast<double>(interval_rows_) / seconds},
              {"data_wait_fraction", interval_data_seconds_ / seconds},
              {"memory_allocated_mb", static_cast<double>(memory.allocated) / kMegabyte},
              {"memory_reserved_mb", static_cast<double>(memory.reserved) / kMegabyte},
              {"memory_peak_mb", static_cast<double>(memory.peak) / kMegabyte}};
  if (product_rate_) fields["flops_fraction"] = interval_flops_ / seconds / *product_rate_;
  if (use.utilization) fields["utilization"] = *use.utilization;
  if (use.power_w) fields["power_w"] = *use.power_w;
  return fields;
}

void StepLog::poll() {
  while (!pending_.empty() && pending_.front().sums.arrived()) write_front();
}

void StepLog::settle() {
  while (!pending_.empty()) write_front();
}

void StepLog::write_front() {
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  const TrainMeter::Values values = TrainMeter::values(pending.sums.wait());
  ProgressState progress = pending.point.progress;
  if (pending.point.interval_ends) {
    Json fields{{"step", progress.step},         {"epoch", progress.epoch},
                {"loss", values.loss},           {"learning_rate", values.learning_rate},
                {"grad_norm", values.grad_norm}, {"skipped_updates", values.nonfinite}};
    if (scales_loss_) fields["loss_scale"] = values.loss_scale;
    fields.update(pending.rates);
    record("train", fields);
    progress.loss = last_loss_ = values.loss;
    progress_.log_point(progress);
  }
  if (pending.point.epoch_ends) {
    record("epoch", Json{{"step", progress.step}, {"epoch", progress.epoch}, {"loss", values.epoch_loss}});
  }
  if (pending.point.interval_ends) check_finite(values, progress.step);
}

void StepLog::check_finite(const TrainMeter::Values& values, int64_t step) const {
  if (values.nonfinite == 0) return;
  if (scales_loss_) {  // an overflow now and then is how the scale is found
    if (values.loss_scale >= kSmallestLossScale) return;
    throw DivergenceError("the gradients overflow fp16 even with the loss scaled by " +
                          std::to_string(values.loss_scale) + ", at step " + std::to_string(step) +
                          "; use train.precision bf16 or fp32, or lower optimizer.learning_rate");
  }
  const std::string what = std::to_string(values.nonfinite) + " update(s) up to step " +
                           std::to_string(step) + " had gradients that are not finite and were skipped";
  if (on_nonfinite_ == OnNonfinite::kAbort) {
    throw DivergenceError(what +
                          "; lower optimizer.learning_rate or lengthen schedule.warmup, or set "
                          "train.on_nonfinite to \"skip\" to go on all the same");
  }
  spdlog::warn("{}", what);
}

void StepLog::show(ProgressState state) {
  state.loss = last_loss_;
  progress_.update(state);
}

void StepLog::write(const char* event, const Json& fields) {
  settle();
  record(event, fields);
}

void StepLog::record(const char* event, const Json& fields) {
  file_.write(event, fields);
  if (events_) events_->write(event, fields);
}

int64_t StepLog::sync() {
  settle();
  return file_.sync();
}

}  // namespace finetune
