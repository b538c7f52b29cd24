#include "job.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "finetune/core/clock.h"
#include "finetune/optim/schedule.h"

namespace finetune::doctor {
namespace {

constexpr int64_t kFewestSteps = 2;
constexpr int64_t kMostSteps = 50;

/// Adds the seconds since it began, or since the last lap, to a figure; does nothing without one.
class Lap {
 public:
  void restart() { began_ = monotonic_seconds(); }
  void add_to(double* seconds) {
    const double now = monotonic_seconds();
    if (seconds != nullptr) *seconds += now - began_;
    began_ = now;
  }

 private:
  double began_ = monotonic_seconds();
};

}  // namespace

Job::Job(const RunConfig& config, const OpenDevice& device, Inputs& inputs)
    : config_(config),
      device_(device),
      inputs_(inputs),
      precision_(resolve_precision(config.train.precision, device, std::nullopt)),
      model_(make_model(config, inputs, device.device, precision_.activations)),
      meter_(device.device) {
  draw_weights();
  batcher_ = std::unique_ptr<Batcher>(new Batcher(make_batcher(config_, inputs_, device_.device)));
  const int64_t num_steps = count_steps(config_.train, batcher_->steps_per_epoch());
  optimizer_.reset(new Optimizer(make_optimizer(config_, model_, num_steps, precision_.scales_loss)));
  update_ = std::make_unique<Update>(model_, *inputs_.task, *optimizer_, meter_, config_.seed);
}

void Job::draw_weights() {
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : model_.parameters()) {
    if (parameter.value.dim() > 1) {
      parameter.value.uniform_(-0.03, 0.03);
    } else {
      parameter.value.fill_(parameter.name.ends_with("bias") ? 0.0 : 1.0);
    }
  }
  refresh_copies(model_.parameters());
}

void Job::set_batch_size(int64_t rows) {
  config_.train.batch_size = std::clamp<int64_t>(rows, 1, inputs_.train.num_rows());
  batcher_ = std::unique_ptr<Batcher>(new Batcher(make_batcher(config_, inputs_, device_.device)));
}

void Job::step(int64_t number, StepTimes* times, Trace* trace) {
  Lap lap;
  const StepBatch batch = batcher_->at(number);
  lap.add_to(times ? &times->data : nullptr);
  update_->begin(number, batch.label_weight);
  for (const Batch& micro_batch : batch.micro_batches) forward_backward(micro_batch, times, trace);
  lap.restart();
  update_->apply();
  lap.add_to(times ? &times->update : nullptr);
  if (trace != nullptr) trace->batch = batch;
}

void Job::forward_backward(const Batch& batch, StepTimes* times, Trace* trace) {
  Lap lap;
  const Update::Forward forward = update_->forward(batch);
  lap.add_to(times ? &times->forward : nullptr);
  update_->backward(forward);
  lap.add_to(times ? &times->backward : nullptr);
  last_loss_ = forward.loss_sum.detach();
  if (trace == nullptr) return;
  trace->logits = forward.logits.detach();
  trace->loss_sum = last_loss_;
}

std::vector<Placed> Job::placed(const Trace& trace) const {
  Placed parameters{"parameters", {}}, copies{"their low-precision copies", {}}, gradients{"gradients", {}},
      moments{"moments, counters, loss scale", {}};
  for (const Parameter& parameter : model_.parameters()) {
    parameters.tensors.push_back(parameter.value);
    if (!parameter.frozen()) gradients.tensors.push_back(parameter.grad);
    copies.tensors.push_back(parameter.copy);
  }
  for (const auto& [name, tensor] : optimizer_->state()) moments.tensors.push_back(tensor);
  Placed inputs{"inputs of a step", {}}, labels{"labels", {}};
  for (const Batch& batch : trace.batch.micro_batches) {
    for (const at::Tensor& tensor :
         {batch.input_ids, batch.token_type_ids, batch.position_ids, batch.token_keys, batch.cu_seqlens}) {
      inputs.tensors.push_back(tensor);
    }
    labels.tensors.push_back(batch.labels);
  }
  const auto arena = [](const DeviceDataset& dataset) {
    return std::vector<at::Tensor>{dataset.input_ids, dataset.row_offsets, dataset.second_segments,
                                   dataset.labels};
  };
  Placed validation{"validation and test data", {}};
  for (const auto* splits : {&inputs_.validation, &inputs_.test}) {
    for (const auto& [name, dataset] : *splits) {
      for (const at::Tensor& tensor : arena(dataset)) validation.tensors.push_back(tensor);
    }
  }
  return {parameters,
          copies,
          gradients,
          moments,
          batcher_->streamed() ? Placed{"training data, streamed from the host", {}}
                               : Placed{"training data", arena(inputs_.train)},
          inputs,
          labels,
          {"dropout's counters", {update_->rng()}},
          {"logits and loss", {trace.logits, trace.loss_sum}},
          validation,
          {"meters", {meter_.sums()}}};
}

double Job::flops(double tokens) const {
  double weights = 0;
  for (const Parameter& parameter : model_.parameters()) {
    const bool is_product =
        parameter.value.dim() == 2 && parameter.name.find("embeddings") == std::string::npos;
    if (is_product) weights += static_cast<double>(parameter.value.numel());
  }
  return 6.0 * weights * tokens;  // a product forward, two backward, two operations a weight and token each
}

StepTimes time_steps(Job& job, int64_t first, double seconds, int64_t* count) {
  job.synchronize();
  StepTimes sum;
  const double began = monotonic_seconds();
  int64_t steps = 0;
  while (steps < kFewestSteps || (steps < kMostSteps && monotonic_seconds() - began < seconds)) {
    job.step(first + steps, &sum);
    ++steps;
  }
  const double queued = monotonic_seconds();
  job.synchronize();
  const double ended = monotonic_seconds();
  const auto n = static_cast<double>(steps);
  *count = steps;
  return {.total = (ended - began) / n,
          .data = sum.data / n,
          .forward = sum.forward / n,
          .backward = sum.backward / n,
          .update = sum.update / n,
          .wait = (ended - queued) / n};
}

}  // namespace finetune::doctor
