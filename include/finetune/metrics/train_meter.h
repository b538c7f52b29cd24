#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "finetune/device/transfer.h"

namespace finetune {

/// Sums since the last log point and since the beginning of the epoch, kept on the device and read once a log
/// point. They are part of a checkpoint, so that a resumed run logs what an undisturbed one would. Nothing
/// here waits for the device.
class TrainMeter {
 public:
  explicit TrainMeter(c10::Device device);

  /// loss_sum [] float32: of one micro-batch. Counts once its update does.
  void add_loss(const at::Tensor& loss_sum);
  /// Forgets the micro-batches of an update that will be done anew.
  void discard_update();
  /// Counts an update. label_weight [] float64: what its labels weigh; grad_norm, nonfinite, learning_rate:
  /// [] float32; loss_scale: likewise, or undefined.
  void add_update(const at::Tensor& label_weight, const at::Tensor& grad_norm, const at::Tensor& nonfinite,
                  const at::Tensor& learning_rate, const at::Tensor& loss_scale = {});

  struct Values {
    double loss = 0;           ///< mean over the labels since the last log point
    double epoch_loss = 0;     ///< mean over the labels since the epoch began
    double grad_norm = 0;      ///< of the last update
    double learning_rate = 0;  ///< of the last update
    int64_t nonfinite = 0;     ///< updates skipped since the last log point
    double loss_scale = 0;     ///< after the last update; 0 where the loss is not scaled
  };
  /// Sends everything to the host in one copy.
  AsyncRead start_read() const { return AsyncRead(sums_); }
  /// What has arrived by such a copy means.
  static Values values(const at::Tensor& host_sums);
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
    kUpdateLoss,  ///< of the update in progress: 0 between updates
    kNumSums
  };
  at::Tensor slot(Sum sum) const;

  at::Tensor sums_;
};

}  // namespace finetune
