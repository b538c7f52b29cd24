#pragma once

namespace finetune {

/// From now on large tensors on the CPU lie in a region of their own (see `BlockRegion`), and small ones are
/// kept by the C library when they are freed. For the process, once; safe to call again. Does nothing where
/// the system gives no addresses, and under sanitizers, which watch single allocations.
void keep_tensor_memory();

/// Gives the memory of freed tensors on the CPU back to the system.
void release_tensor_memory();

}  // namespace finetune
