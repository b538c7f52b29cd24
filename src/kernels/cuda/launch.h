#pragma once

#include <cuda_runtime_api.h>

#include "gather_batch.cuh"

/// Launchers of the kernels. A `.cu` file includes no header of LibTorch's: nvcc reads every header once for
/// each architecture, and ATen's take minutes that way. Operands are checked and results allocated in the
/// `.cpp` beside it.
namespace finetune::kernels::cuda {

/// Queues the kernel on `stream`; returns the launch's error. Nothing is queued for no tokens.
cudaError_t launch_gather_batch(const GatherBatchArguments& args, cudaStream_t stream);

}  // namespace finetune::kernels::cuda
