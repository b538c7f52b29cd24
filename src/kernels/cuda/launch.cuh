#pragma once

#include <cuda_runtime.h>

#include "block.cuh"
#include "launch.h"

namespace finetune::kernels::cuda {

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) execute(const __grid_constant__ Kernel kernel) {
  DeviceBlock block;
  kernel(block);
}

template <typename Kernel>
void launch(const Kernel& kernel) {
  constexpr int64_t kAlwaysAllowed = 48 * 1024;
  const Grid grid = kernel.grid();
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const int64_t shared_bytes = kernel.shared_bytes();
  if (shared_bytes > kAlwaysAllowed) {
    check_shared_memory(shared_bytes);
    check_launch(cudaFuncSetAttribute(execute<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes)));
  }
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  execute<<<blocks, Kernel::kThreads, static_cast<size_t>(shared_bytes),
            static_cast<cudaStream_t>(current_stream())>>>(kernel);
  check_launch(cudaGetLastError());
}

}  // namespace finetune::kernels::cuda
