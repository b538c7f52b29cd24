#pragma once

#include <functional>

#include "finetune/batching/dataset.h"
#include "finetune/core/json.h"
#include "finetune/model/classifier.h"
#include "finetune/tasks/task.h"

namespace finetune {

/// Receives the logits of consecutive rows, the first being row `first_row`: float32 [B, C], or [P, C] of the
/// batch's positions, on the device.
using LogitsSink = std::function<void(int64_t first_row, const Batch& batch, const at::Tensor& logits)>;

/// Runs the model over all rows in file order, without gradients and without dropout; weights and generators
/// stay as they are. Throws `Interrupted` when a stop is asked for in between.
void for_each_batch(const Classifier& model, const DeviceDataset& dataset, const LogitsSink& sink);

/// Measures the batches of labelled rows as they are answered, in their order.
class RowMeter {
 public:
  /// All must outlive it.
  RowMeter(const Task& task, const DeviceDataset& rows, Meter& meter);
  void add(int64_t first_row, const Batch& batch, const at::Tensor& logits);

 private:
  const Task& task_;
  Meter& meter_;
  std::vector<double> weights_;  ///< [R] of each row's labels
};

/// The task's metrics over a labelled dataset. Reads the device once, at the end. also: is given each batch's
/// logits too.
Json evaluate(const Classifier& model, const DeviceDataset& dataset, const Task& task,
              const LogitsSink& also = {});

}  // namespace finetune
