#pragma once

#include <ATen/core/Tensor.h>

#include "finetune/batching/dataset.h"
#include "finetune/core/json.h"

namespace finetune {

/// Accumulates on the device what a task's metrics need, and does their arithmetic on the host, at the end.
class Meter {
 public:
  virtual ~Meter() = default;

  /// Announces the rows whose batches come next, all of them and in their order: for metrics of more than
  /// single answers.
  virtual void begin(const DeviceDataset& rows) { static_cast<void>(rows); }

  /// loss_sum [] float32; logits [L, C] float32 and labels [L] or [L, C] as the task has them; label_weight:
  /// of these labels, known on the host. Does not wait for the device.
  virtual void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                   double label_weight) = 0;

  /// The metrics by name. Waits for the device.
  virtual Json drain() = 0;
};

/// A mean over all labels: `loss`.
class LossMean {
 public:
  explicit LossMean(c10::Device device);
  void add(const at::Tensor& loss_sum, double label_weight);
  double drain();

 private:
  double label_weight_ = 0;
  at::Tensor sum_;  ///< [1] float64
};

/// Tensors of consecutive batches, kept on the device and read at once.
class Collected {
 public:
  void add(const at::Tensor& values) { parts_.push_back(values); }
  /// All of them one after the other, on the host; undefined where there is none. Waits for the device.
  at::Tensor drain();

 private:
  std::vector<at::Tensor> parts_;
};

}  // namespace finetune
