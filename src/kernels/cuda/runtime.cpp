#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <string>

#include "finetune/core/error.h"
#include "launch.h"

namespace finetune::kernels::cuda {

void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

void check_launch(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

void check_shared_memory(int64_t bytes) {
  const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
  const auto allowed = static_cast<int64_t>(properties->sharedMemPerBlockOptin);
  if (bytes <= allowed) return;
  throw DeviceError("attention heads of this size need " + std::to_string(bytes) +
                    " bytes of shared memory in this precision, and " + properties->name + " has " +
                    std::to_string(allowed) +
                    "; set train.precision to bf16 or fp16, which need about half, or device to cpu");
}

}  // namespace finetune::kernels::cuda
