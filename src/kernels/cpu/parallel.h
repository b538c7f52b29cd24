#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace finetune::kernels::cpu {

/// at::parallel_for: f(first, end) over contiguous parts of [begin, end), each at least `grain` long, on
/// LibTorch's threads.
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t, int64_t)> f);

/// Threads that it uses at most.
int64_t num_threads();

}  // namespace finetune::kernels::cpu
