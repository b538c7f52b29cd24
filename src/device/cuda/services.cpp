#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <sstream>

#include "finetune/device/plugin.h"

namespace finetune {
namespace {

int64_t current(const c10::CachingAllocator::StatArray& stat) {
  return stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

class CudaServices final : public DeviceServices {
 public:
  MemoryStats memory(c10::Device device) const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {.allocated = current(stats.allocated_bytes),
            .reserved = current(stats.reserved_bytes),
            .peak = stats.allocated_bytes[kAll].peak};
  }

  void synchronize(c10::Device device) const override {
    const c10::cuda::CUDAGuard guard(device);
    c10::cuda::device_synchronize();
  }

  bool has_fast_bf16(c10::Device device) const override {
    return at::cuda::getDeviceProperties(device.index())->major >= 8;  // from Ampere on
  }

  std::string describe(c10::Device device) const override {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
    std::ostringstream text;
    text << properties->name << ", " << (properties->totalGlobalMem >> 30) << " GiB, compute capability "
         << properties->major << "." << properties->minor;
    if (at::globalContext().hasCuDNN()) text << ", cuDNN " << at::globalContext().versionCuDNN();
    return text.str();
  }
};

}  // namespace
}  // namespace finetune

extern "C" const finetune::DevicePlugin* finetune_device_plugin(const char** why_not) {
  static const finetune::CudaServices services;
  static const finetune::DevicePlugin plugin{.services = &services, .num_devices = c10::cuda::device_count()};
  if (plugin.num_devices == 0) {
    *why_not = "LibTorch finds no usable NVIDIA device; is the driver too old for its CUDA version?";
    return nullptr;
  }
  return &plugin;
}
