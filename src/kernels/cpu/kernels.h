#pragma once

#include <torch/library.h>

#include "../operators.h"

/// The CPU's kernels of `finetune::name`: contiguous tensors; activations may be float32, bfloat16 or
/// float16, parameters and their gradients are float32. Results do not depend on the number of threads.
namespace finetune::kernels::cpu {

using operators::OptionalTensor;

/// Puts every CPU kernel into the dispatcher's table.
void register_kernels(torch::Library& library);

// Each with the signature of the operator that calls it.
#define FINETUNE_DECLARE_KERNEL(name) decltype(operators::name) name;
FINETUNE_FOR_EACH_OPERATOR(FINETUNE_DECLARE_KERNEL)
#undef FINETUNE_DECLARE_KERNEL

}  // namespace finetune::kernels::cpu
