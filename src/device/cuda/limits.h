#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace finetune {

/// Why the kernels cannot run on a device of that compute capability, and what to do; nothing where they can.
std::optional<std::string> too_old_a_device(int index, const std::string& name, int major, int minor);

/// Throws `DeviceError` where a block needs more shared memory than the device has for one.
void check_shared_memory(int64_t needed, int64_t allowed, const std::string& name);

}  // namespace finetune
