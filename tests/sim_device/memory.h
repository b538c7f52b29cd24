#pragma once

/// The device's memory, pinned host memory, and the CPU allocator that serves kernels.

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "state.h"

namespace finetune::sim {

/// Allocates on the current stream of `device`. Throws c10::OutOfMemoryError above the budget.
Block* new_block(int device, size_t requested);

/// The live block that holds the address, or null.
Block* find_block(const void* address);
/// Likewise, if it is pinned host memory.
Block* pinned_block(const void* address);
/// The live device block of a storage. Throws where the memory was freed, or is none of ours.
Block* block_of(const c10::DataPtr& data, const char* op);

/// A pointer as tensors of the device hold it; owns the block.
c10::DataPtr device_data(Block* block);

/// Makes a device pointer of what a CPU kernel left in a storage: as it is where that is device memory
/// already, a copy (counted) where it is not.
c10::DataPtr take_data(c10::StorageImpl& cpu, int device, const char* op);

c10::DeviceAllocator& device_allocator();
/// The process's CPU allocator: device memory inside a kernel, the former allocator otherwise.
c10::Allocator& kernel_allocator();
at::HostAllocator& pinned_allocator();

/// Takes the place of the process's CPU allocator.
void install_allocators();

}  // namespace finetune::sim
