#pragma once

#include <ATen/core/Tensor.h>

#include "finetune/kernels/ops.h"

namespace finetune {

/// Whether, and from which state, a forward pass draws dropout.
struct ForwardMode {
  bool training = false;
  at::Tensor rng;  ///< [2] int64 on the device: seed, step; needed in training

  kernels::Dropout dropout(double probability, int64_t site, const at::Tensor& token_keys) const {
    if (!training || probability == 0.0) return {};
    return {.probability = probability, .site = site, .rng = rng, .token_keys = token_keys};
  }
};

}  // namespace finetune
