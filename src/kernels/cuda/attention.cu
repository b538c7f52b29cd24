#include "attention.cuh"
#include "kernel_lists.h"
#include "launch.cuh"

namespace finetune::kernels::cuda {

FINETUNE_ATTENTION_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)

}  // namespace finetune::kernels::cuda
