#include <torch/library.h>

#include "kernels.h"

namespace finetune::kernels::cuda {

TORCH_LIBRARY_IMPL(finetune, CUDA, library) {
#define FINETUNE_REGISTER_KERNEL(name) library.impl(#name, TORCH_FN(name));
  FINETUNE_FOR_EACH_OPERATOR(FINETUNE_REGISTER_KERNEL)
#undef FINETUNE_REGISTER_KERNEL
}

}  // namespace finetune::kernels::cuda
