#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace finetune {

/// What Adam keeps of one parameter.
struct AdamMoments {
  double step = 0;  ///< updates of this parameter
  at::Tensor exp_avg, exp_avg_sq;
  at::Tensor max_exp_avg_sq;  ///< undefined without amsgrad
};

/// Parameters that share their settings, as one of torch's param groups. What a file does not say is unset.
struct AdamGroup {
  std::vector<std::string> names;  ///< the parameters' names in the file, in the group's order
  std::optional<double> learning_rate;
  std::optional<double> peak_learning_rate;  ///< `initial_lr`, which a scheduler leaves behind
  std::optional<double> weight_decay, beta1, beta2, eps;
  std::optional<bool> amsgrad;
  std::optional<bool> decoupled;  ///< AdamW's kind of weight decay
};

/// The state of an Adam or AdamW optimizer: knows parameters by name only.
struct AdamState {
  std::vector<AdamGroup> groups;
  std::map<std::string, AdamMoments> moments;  ///< by the parameter's name in the file; none before its first
                                               ///< update
};

}  // namespace finetune
