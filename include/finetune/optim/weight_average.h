#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "finetune/model/parameter.h"

namespace finetune {

/// An exponential moving average of the weights that learn (Polyak and Juditsky 1992): after the first update
/// it is the weights, after each later one average * decay + weights * (1 - decay), as
/// `torch.optim.swa_utils.AveragedModel` with `get_ema_multi_avg_fn` has it. Nothing here waits for the
/// device.
class WeightAverage {
 public:
  /// Allocates an average beside each parameter that is not frozen.
  WeightAverage(const std::vector<Parameter>& parameters, double decay);

  /// After an update. applied [1] int64: updates applied before it; nonfinite [] float32: 1 where it was
  /// skipped, which leaves the averages as they are.
  void update(const at::Tensor& applied, const at::Tensor& nonfinite);

  /// Exchanges averages and weights. applied [1] int64: updates so far; 0: the averages become the weights.
  void exchange(const at::Tensor& applied);

  /// Whether a name of the optimizer's state is an average's.
  static bool is_average(const std::string& name) { return name.starts_with("ema/"); }

  /// "ema/NAME": the live tensors.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  double decay_;
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> averages_;
};

}  // namespace finetune
