#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "finetune/kernels/ops.h"

namespace finetune::kernels {

/// Keeps a dropout's numbers for the backward pass; its tensors go through `save_for_backward`.
inline void save_dropout(torch::autograd::AutogradContext* context, const Dropout& dropout) {
  context->saved_data["probability"] = dropout.probability;
  context->saved_data["site"] = dropout.site;
}

inline double saved_probability(torch::autograd::AutogradContext* context) {
  return context->saved_data["probability"].toDouble();
}

inline int64_t saved_site(torch::autograd::AutogradContext* context) {
  return context->saved_data["site"].toInt();
}

}  // namespace finetune::kernels
