#pragma once

#include "../operators.h"

/// The CUDA kernels of `finetune::name`: contiguous tensors of one device, activations in float32, bfloat16
/// or float16, everything else in float32. All is queued on the current stream and nothing is read back.
/// Results repeat to the bit: no kernel adds atomically.
namespace finetune::kernels::cuda {

using operators::OptionalTensor;

// Each with the signature of the operator that calls it.
#define FINETUNE_DECLARE_KERNEL(name) decltype(operators::name) name;
FINETUNE_FOR_EACH_OPERATOR(FINETUNE_DECLARE_KERNEL)
#undef FINETUNE_DECLARE_KERNEL

}  // namespace finetune::kernels::cuda
