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

/// Copies a tensor on the host, of any strides, into `destination`: of the same shape, on any device;
/// floating dtypes are converted. A few MiB on the host beside a tensor that is not contiguous. Synchronises.
void copy_tensor(const at::Tensor& source, const at::Tensor& destination);

}  // namespace finetune
