#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace finetune {

/// Sums since the last log point and since the beginning of the epoch, kept on the device and read once a log
/// point. They are part of a checkpoint, so that a resumed run logs what an undisturbed one would.
class TrainMeter {
 public:
  explicit TrainMeter(c10::Device device);

  /// loss_sum [] float32: of one micro-batch.
  void add_loss(const at::Tensor& loss_sum);
  /// What the labels of an update weigh, known on the host.
  void add_weight(double label_weight);
  /// grad_norm, nonfinite, learning_rate: [] float32, of one update; loss_scale: likewise, or undefined.
  void add_update(const at::Tensor& grad_norm, const at::Tensor& nonfinite, const at::Tensor& learning_rate,
                  const at::Tensor& loss_scale = {});

  struct Values {
    double loss = 0;           ///< mean over the labels since the last log point
    double epoch_loss = 0;     ///< mean over the labels since the epoch began
    double grad_norm = 0;      ///< of the last update
    double learning_rate = 0;  ///< of the last update
    int64_t nonfinite = 0;     ///< updates skipped since the last log point
    double loss_scale = 0;     ///< after the last update; 0 where the loss is not scaled
  };
  /// Reads everything in one copy, which waits for the device.
  Values read() const;
  void begin_interval();
  void begin_epoch();

  /// [kNumSums] float64, the live tensor: saved and restored with the run.
  const at::Tensor& sums() const { return sums_; }

 private:
  enum Sum : int64_t {
    kLoss,
    kWeight,
    kEpochLoss,
    kEpochWeight,
    kGradNorm,
    kLearningRate,
    kNonfinite,
    kLossScale,
    kNumSums
  };
  at::Tensor slot(Sum sum) const;

  at::Tensor sums_;
};

}  // namespace finetune
