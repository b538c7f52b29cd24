#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// How a parameter's update differs from the others'.
struct UpdateRule {
  double rate_factor = 1.0;  ///< of the learning rate
  double weight_decay = 0.0;
  int64_t depth = 0;  ///< below the head: 0 for the head, 1 for the last layer, most for the embeddings

  bool operator==(const UpdateRule&) const = default;
};

/// The rules of parameters by their names, which are a model's in its order, or some of them.
///
/// `optimizer.groups` comes first: the first group one of whose patterns is found in the name gives its
/// learning rate and weight decay where it has them. Else the weight decay is the optimizer's, or 0 by
/// `no_decay`, and the rate falls by `layerwise_lr_decay` from each layer to the one below it: L layers give
/// the head 1, layer l (from 0) decay^(L - l), the embeddings decay^(L + 1) (Clark et al. 2020, ELECTRA,
/// which fine-tunes so). Throws `ConfigError` for a pattern that is found in no name.
std::vector<UpdateRule> update_rules(const std::vector<std::string>& names, const OptimizerConfig& config);

}  // namespace finetune
