#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "device/cuda/limits.h"
#include "launch.h"

namespace finetune::kernels::cuda {

void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

void check_launch(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

void check_shared_memory(int64_t bytes) {
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  finetune::check_shared_memory(bytes, static_cast<int64_t>(properties->sharedMemPerBlockOptin),
                                properties->name);
}

}  // namespace finetune::kernels::cuda
