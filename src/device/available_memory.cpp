#include "finetune/device/available_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdlib>

#include "finetune/core/file.h"

namespace finetune {

int64_t system_memory(const char* field) {
  return std::strtoll(field_of_file("/proc/meminfo", field).c_str(), nullptr, 10) * 1024;
}

std::optional<int64_t> available_memory(c10::Device device) {
  if (device.is_cpu()) {
    const int64_t bytes = system_memory("MemAvailable");
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  }
  try {
    return static_cast<int64_t>(c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace finetune
