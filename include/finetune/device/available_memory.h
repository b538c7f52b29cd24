#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace finetune {

/// Bytes that can still be allocated on a device: of the CPU what the system could give without swapping; of
/// others what the driver calls free and what LibTorch's allocator keeps unused. Does not wait for the
/// device. Nothing where the device does not say.
std::optional<int64_t> available_memory(c10::Device device);

/// The number after `field` in /proc/meminfo ("MemTotal", "MemAvailable"), in bytes; 0 where it is not there.
int64_t system_memory(const char* field);

/// Gives what the allocator keeps unused back to the device, or the system. Waits for the device, so it
/// belongs between phases.
void release_cached_memory(c10::Device device);

}  // namespace finetune
