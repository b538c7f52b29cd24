#pragma once

#include <vector>

#include "finetune/checkpoint/named_tensor.h"
#include "finetune/model/parameter.h"

namespace finetune {

/// The values of parameters as the checkpoint layer, which knows no model, takes them.
inline NamedTensors named_tensors(const std::vector<Parameter>& parameters) {
  NamedTensors tensors;
  tensors.reserve(parameters.size());
  for (const Parameter& parameter : parameters) tensors.push_back({parameter.name, parameter.value});
  return tensors;
}

}  // namespace finetune
