#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// What an update did, on the device.
struct UpdateStats {
  at::Tensor grad_norm;      ///< [] float32: before clipping
  at::Tensor nonfinite;      ///< [] float32: 1 where the gradients were not finite and the update was skipped
  at::Tensor learning_rate;  ///< [] float32
};

/// AdamW, Adam or SGD over all parameters: clipping by the global norm, the learning rate by the device's own
/// count of applied updates, non-finite gradients skipped. Nothing here waits for the device.
class Optimizer {
 public:
  /// `rates`: the learning rate by number of applied updates (see `learning_rates`). State is created beside
  /// each parameter.
  Optimizer(const std::vector<Parameter>& parameters, const OptimizerConfig& config,
            const std::vector<float>& rates);

  /// Applies the gradients and clears them.
  UpdateStats step();

  /// State by name: "exp_avg/NAME", "exp_avg_sq/NAME", "step/NAME", "applied". Views of the live tensors.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  OptimizerConfig config_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> values_, grads_, exp_avgs_, exp_avg_sqs_;
  std::vector<double> weight_decays_;
  at::Tensor steps_;    ///< [P] float32: updates of each parameter
  at::Tensor applied_;  ///< [1] int64: updates applied, which picks the learning rate
  at::Tensor rates_;    ///< [num_steps + 1] float32
};

/// Whether weight decay leaves a parameter alone: its name ends with one of the patterns.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace finetune
