#include "parallel.h"

#include <ATen/Parallel.h>

namespace finetune::kernels::cpu {

void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t, int64_t)> f) {
  at::parallel_for(begin, end, grain, f);
}

int64_t num_threads() { return at::get_num_threads(); }

}  // namespace finetune::kernels::cpu
