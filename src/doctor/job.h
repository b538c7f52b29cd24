#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "finetune/device/device.h"
#include "finetune/doctor/audit.h"
#include "finetune/doctor/report.h"
#include "finetune/metrics/train_meter.h"
#include "finetune/optim/optimizer.h"
#include "finetune/train/precision.h"
#include "finetune/train/recipe.h"
#include "finetune/train/update.h"

namespace finetune::doctor {

/// What `finetune::run` makes and does, without a run folder: model, optimizer and meters on the device
/// beside the data, and steps that can be looked into.
class Job {
 public:
  /// `inputs` must outlive the job. Weights are random: no figure depends on them.
  Job(const RunConfig& config, const OpenDevice& device, Inputs& inputs);

  /// Tensors of one step that are gone after it otherwise.
  struct Trace {
    StepBatch batch;
    at::Tensor logits;
    at::Tensor loss_sum;
  };

  /// One update, with the rows of step `number`, as `Trainer` makes it. Does not wait for the device. Adds
  /// the host's time to `times`.
  void step(int64_t number, StepTimes* times = nullptr, Trace* trace = nullptr);

  /// Another number of rows an update, up to what the data has.
  void set_batch_size(int64_t rows);

  int64_t batch_size() const { return config_.train.batch_size; }
  int64_t steps_per_epoch() const { return batcher_->steps_per_epoch(); }
  double tokens(int64_t step) { return static_cast<double>(batcher_->at(step).num_tokens); }
  void synchronize() const { device_.services->synchronize(device_.device); }

  /// Everything that has to be on the device, the tensors of a step included.
  std::vector<Placed> placed(const Trace& trace) const;

  /// Floating-point operations of the matrix products of a step of `tokens` tokens, forward and backward.
  double flops(double tokens) const;

  MemoryPlan plan() const { return plan_memory(config_, inputs_, model_, *batcher_); }
  const RunConfig& config() const { return config_; }
  const OpenDevice& device() const { return device_; }
  Inputs& inputs() const { return inputs_; }
  const Classifier& model() const { return model_; }
  const std::string& precision() const { return precision_.name; }
  const at::Tensor& last_loss() const { return last_loss_; }

 private:
  void draw_weights();
  void forward_backward(const Batch& batch, StepTimes* times, Trace* trace);

  RunConfig config_;
  const OpenDevice& device_;
  Inputs& inputs_;
  ResolvedPrecision precision_;
  Classifier model_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainMeter meter_;
  std::unique_ptr<Update> update_;
  at::Tensor last_loss_;
};

/// Mean times of steps `first`, `first + 1`, ... for about `seconds` (at least two of them), each device-wide
/// wait left to the end. `count` is how many there were.
StepTimes time_steps(Job& job, int64_t first, double seconds, int64_t* count);

}  // namespace finetune::doctor
