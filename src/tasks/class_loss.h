#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// Numbers that a loss reads on whichever device its operands lie.
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<double>& values);
  /// [values] float32; undefined where there are none. Uploaded once, without waiting.
  const at::Tensor& on(c10::Device device) const;

 private:
  std::vector<float> values_;
  mutable at::Tensor tensor_;
};

/// The loss of single classes: cross-entropy with label smoothing, or the focal loss (Lin et al. 2017),
/// weighted by class. Smoothing under class weights is PyTorch's: the share of a class is weighted as that
/// class.
class ClassLoss {
 public:
  explicit ClassLoss(const TaskConfig& config);

  /// What a label weighs: its class's weight, 1 without weights, 0 where it is ignored.
  double weight(int64_t label) const;
  /// [] float32 from logits [L, C] and labels [L].
  at::Tensor sum(const at::Tensor& logits, const at::Tensor& labels) const;

 private:
  TaskConfig config_;
  DeviceVector weights_;
};

/// Softmax of one label's logits, in float64.
std::vector<double> probabilities(const float* logits, int64_t num_labels);

}  // namespace finetune
