#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "finetune/core/log.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/device/device.h"
#include "finetune/optim/schedule.h"
#include "finetune/train/dry_run.h"
#include "finetune/train/precision.h"
#include "finetune/train/recipe.h"
#include "finetune/train/update.h"

namespace finetune {
namespace {

constexpr int64_t kMostRows = 32;
constexpr int64_t kMostSteps = 200;
constexpr int64_t kStepsBetweenReads = 10;
/// A loss below this share of the first one counts as learned by heart.
constexpr double kNearZero = 0.05;

/// What keeps a batch from being learned by heart, and is meant to, is left out.
RunConfig without_regularization(RunConfig config) {
  config.model.dropout = 0;
  config.model.attention_dropout = 0;
  config.model.classifier_dropout = 0;
  config.task.label_smoothing = 0;
  config.optimizer.weight_decay = 0;
  config.schedule = {.type = ScheduleType::kConstant, .warmup = 0};
  config.train.batch_size = std::min(config.train.batch_size, kMostRows);
  return config;
}

/// The first update's rows as the host sees them: which have the tokens of another one but not its label.
void compare_rows(const StepBatch& step_batch, OverfitReport& report) {
  std::map<std::vector<int32_t>, std::map<int64_t, int64_t>> labels_of;  // rows of each label
  std::map<int64_t, int64_t> rows_of_label;
  for (const Batch& batch : step_batch.micro_batches) {
    const bool one_class_a_row = batch.labels.defined() && batch.labels.dim() == 1 &&
                                 batch.labels.scalar_type() == at::kLong && !batch.positions.defined();
    if (!one_class_a_row) return;
    const AsyncRead ids_read(batch.input_ids), ends_read(batch.cu_seqlens), labels_read(batch.labels);
    const auto* ids = ids_read.wait().const_data_ptr<int32_t>();
    const auto* ends = ends_read.wait().const_data_ptr<int32_t>();
    const auto* labels = labels_read.wait().const_data_ptr<int64_t>();
    for (int64_t row = 0; row < batch.num_rows; ++row) {
      ++labels_of[std::vector<int32_t>(ids + ends[row], ids + ends[row + 1])][labels[row]];
      ++rows_of_label[labels[row]];
    }
  }
  for (const auto& [tokens, labels] : labels_of) {
    if (labels.size() < 2) continue;
    for (const auto& [label, rows] : labels) report.conflicting_rows += rows;
  }
  report.one_label = rows_of_label.size() == 1;
}

/// Trains on one batch from the initial weights. Returns whether its loss came near zero.
bool attempt(const RunConfig& config, const OpenDevice& device, const ResolvedPrecision& precision,
             const Inputs& inputs, const StepBatch& batch, OverfitReport& report) {
  Classifier model = make_model(config, inputs, device.device, precision.activations);
  load_initial_weights(config, model);
  Optimizer optimizer = make_optimizer(config, model, kMostSteps, precision.scales_loss);
  TrainMeter meter(device.device);
  Update update(model, *inputs.task, optimizer, meter, config.seed);
  report.learning_rate = config.optimizer.learning_rate;
  for (int64_t step = 1; step <= kMostSteps; ++step) {
    throw_if_stop_requested();
    const bool is_read = step == 1 || step % kStepsBetweenReads == 0;
    if (is_read) meter.begin_interval();
    update.begin(0, batch.label_weight);  // the same draws each time, where there are any
    for (const Batch& micro_batch : batch.micro_batches) update.backward(update.forward(micro_batch));
    update.apply();
    if (!is_read) continue;
    const double loss = TrainMeter::values(meter.start_read().wait()).loss;
    if (step == 1) report.first_loss = loss;
    report.last_loss = loss;
    report.num_steps = step;
    spdlog::info("learning rate {}: step {}: loss {:.4g}", config.optimizer.learning_rate, step, loss);
    if (!std::isfinite(loss)) return false;
    if (loss < kNearZero * report.first_loss) return true;
  }
  return false;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

}  // namespace

OverfitReport overfit_batch(const RunConfig& requested) {
  RunConfig config = without_regularization(requested);
  const OpenDevice device = open_device(config.device, config.threads);
  Inputs inputs = load_inputs(config, device.device);
  Batcher batcher = make_batcher(config, inputs, device.device);
  const ResolvedPrecision precision = resolve_precision(config.train.precision, device, std::nullopt);
  choose_micro_batch(config, inputs, device.device, precision.activations, batcher);
  const StepBatch batch = batcher.at(0);

  OverfitReport report;
  report.configured_rate = requested.optimizer.learning_rate;
  report.num_rows = static_cast<int64_t>(batch.rows.size());
  compare_rows(batch, report);
  for (const double factor : {1.0, 10.0, 100.0}) {
    config.optimizer.learning_rate = requested.optimizer.learning_rate * factor;
    report.learned = attempt(config, device, precision, inputs, batch, report);
    if (report.learned) break;
  }
  return report;
}

std::string to_text(const OverfitReport& report) {
  std::string text = "one batch of " + std::to_string(report.num_rows) + " rows: loss " +
                     number_text(report.first_loss) + " -> " + number_text(report.last_loss) + " in " +
                     std::to_string(report.num_steps) + " steps at learning rate " +
                     number_text(report.learning_rate) + "\n";
  if (report.conflicting_rows > 0) {
    text +=
        std::to_string(report.conflicting_rows) +
        " of its rows have the same tokens as another one and another label: no model can learn both. Look "
        "at "
        "them with finetune inspect; a data.max_length that cuts off what tells them apart does the same\n";
  }
  if (report.one_label) {
    text +=
        "all of its rows have one label, so this shows little; set data.shuffle, or take rows of more "
        "classes\n";
  }
  if (report.learned && report.learning_rate > report.configured_rate) {
    text += "learned by heart, but not at optimizer.learning_rate " + number_text(report.configured_rate) +
            ": the job is wired rightly, and a higher rate or more steps may be what it needs\n";
  } else if (report.learned) {
    text += "learned by heart: the job can learn\n";
  } else {
    text +=
        "not learned, at learning rates from " + number_text(report.configured_rate) + " to " +
        number_text(report.learning_rate) +
        ": something keeps the job from learning. Look at the labels (finetune inspect), at what is frozen "
        "(model.freeze), and at optimizer.learning_rate\n";
  }
  return text;
}

}  // namespace finetune
