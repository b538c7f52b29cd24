#include "kernel_lists.h"
#include "launch.cuh"
#include "norm.cuh"
#include "rows.cuh"

namespace finetune::kernels::cuda {

FINETUNE_ACTIVATION_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)

}  // namespace finetune::kernels::cuda
