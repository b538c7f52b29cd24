#pragma once

#include "finetune/batching/batch.h"
#include "finetune/metrics/train_meter.h"
#include "finetune/model/classifier.h"
#include "finetune/optim/optimizer.h"
#include "finetune/tasks/task.h"

namespace finetune {

/// The device's part of an update, piece by piece: `begin`, `forward` and `backward` of each micro-batch,
/// `apply`. Nothing here waits for the device. What changes from one update to the next is on the device
/// after `begin`, so the rest can be recorded and repeated.
class Update {
 public:
  /// All must outlive it, and lie on one device. seed: of the run.
  Update(const Classifier& model, const Task& task, Optimizer& optimizer, TrainMeter& meter, uint64_t seed);

  /// step: of the run, which dropout depends on; label_weight: what the labels of all its micro-batches
  /// weigh.
  void begin(int64_t step, double label_weight);

  struct Forward {
    at::Tensor logits;    ///< see Classifier::forward
    at::Tensor loss_sum;  ///< [] float32
  };
  Forward forward(const Batch& batch) const;

  /// Adds the micro-batch's gradients to the parameters', and its loss to the meter.
  void backward(const Forward& forward);

  /// Applies the gradients, and counts the update.
  UpdateStats apply();

  /// Forgets the micro-batches so far, so that the update can begin anew.
  void discard();

  /// [2] int64: seed, step: what dropout is counted by.
  const at::Tensor& rng() const { return rng_; }

 private:
  const Classifier& model_;
  const Task& task_;
  Optimizer& optimizer_;
  TrainMeter& meter_;
  at::Tensor rng_;
  at::Tensor label_weight_;  ///< [] float64
  at::Tensor divisor_;       ///< [] float32: what the summed loss is divided by
};

}  // namespace finetune
