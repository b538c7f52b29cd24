#pragma once

#include <cstdint>

/// The way from an operator to its kernels. A `.cu` file includes no header of LibTorch's: nvcc reads every
/// header once for each architecture, and ATen's take minutes that way. Operands are checked and results
/// allocated in the `.cpp` files.
namespace finetune::kernels::cuda {

/// Queues a kernel on the current stream of the current device. Throws where it cannot be launched. No
/// blocks: nothing is queued. Instantiated for every kernel in the `.cu` files.
template <typename Kernel>
void launch(const Kernel& kernel);

/// The `cudaStream_t` that is current.
void* current_stream();

/// Throws `c10::Error` for a launch's `cudaError_t` other than success.
void check_launch(int error);

/// Throws `DeviceError` where a block of the current device cannot have so much shared memory.
void check_shared_memory(int64_t bytes);

}  // namespace finetune::kernels::cuda
