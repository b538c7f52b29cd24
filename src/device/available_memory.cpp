#include "finetune/device/available_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdlib>

#include "finetune/core/file.h"
#include "tensor_memory.h"

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
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(device.type());
    const auto stats = allocator->getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const int64_t unused = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
    return static_cast<int64_t>(allocator->getMemoryInfo(device.index()).first) + unused;
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void release_cached_memory(c10::Device device) {
  if (device.is_cpu()) {
    release_tensor_memory();
  } else {
    c10::getDeviceAllocator(device.type())->emptyCache();
  }
}

}  // namespace finetune
