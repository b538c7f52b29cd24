#include "adam.cuh"
#include "embedding.cuh"
#include "gather_batch.cuh"
#include "kernel_lists.h"
#include "launch.cuh"
#include "rows.cuh"

namespace finetune::kernels::cuda {

FINETUNE_ROW_KERNELS(FINETUNE_INSTANTIATE_LAUNCH)

}  // namespace finetune::kernels::cuda
