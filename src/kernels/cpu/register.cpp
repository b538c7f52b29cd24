#include "kernels.h"

namespace finetune::kernels::cpu {

void register_kernels(torch::Library& library) { library.impl("gather_batch", TORCH_FN(gather_batch)); }

}  // namespace finetune::kernels::cpu
