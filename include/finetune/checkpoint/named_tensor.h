#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace finetune {

/// A tensor and the name it has on disk: Hugging Face's parameter name for weights. The tensor may be a view
/// into a larger storage, on any device.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

}  // namespace finetune
