#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "finetune/device/plugin.h"
#include "graph.h"
#include "limits.h"
#include "nvml.h"

namespace finetune {
namespace {

int64_t current(const c10::CachingAllocator::StatArray& stat) {
  return stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

std::string pci_bus_id(c10::Device device) {
  std::array<char, 32> text{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device.index()));
  return text.data();
}

/// Whether a forbidden wait is to end the run. LibTorch's guard also takes offence at copies from plain host
/// memory, which do no harm once in an epoch, so it stands guard where it is asked to.
bool guards_against_waits() {
  const char* mode = std::getenv("FINETUNE_SYNC_GUARD");
  return mode != nullptr && std::string_view(mode) == "error";
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

  DeviceUse use(c10::Device device) const override { return nvml_use(pci_bus_id(device)); }

  /// With FINETUNE_SYNC_GUARD=error in the environment every operation that makes the host wait throws.
  void forbid_host_reads(bool forbidden) const override {
    static const bool guards = guards_against_waits();
    if (!guards) return;
    c10::cuda::warning_state().set_sync_debug_mode(forbidden ? c10::cuda::SyncDebugMode::L_ERROR
                                                             : c10::cuda::SyncDebugMode::L_DISABLED);
  }

  void synchronize(c10::Device device) const override {
    const c10::cuda::CUDAGuard guard(device);
    c10::cuda::device_synchronize();
  }

  bool has_fast_bf16(c10::Device device) const override {
    return at::cuda::getDeviceProperties(device.index())->major >= 8;  // from Ampere on
  }

  std::unique_ptr<RecordedWork> record(c10::Device device, const std::function<void()>& work) const override {
    return record_cuda_graph(device, work);
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

/// How many devices can be used: those before the first one that is too old.
int count_usable_devices(std::string* why_not) {
  const int count = c10::cuda::device_count();
  *why_not = "LibTorch finds no usable NVIDIA device; is the driver too old for its CUDA version?";
  for (int device = 0; device < count; ++device) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
    const auto problem = too_old_a_device(device, properties->name, properties->major, properties->minor);
    if (!problem) continue;
    *why_not = *problem;
    return device;
  }
  return count;
}

}  // namespace
}  // namespace finetune

extern "C" const finetune::DevicePlugin* finetune_device_plugin(const char** why_not) {
  static const finetune::CudaServices services;
  static std::string reason;
  static const finetune::DevicePlugin plugin{.services = &services,
                                             .num_devices = finetune::count_usable_devices(&reason)};
  if (plugin.num_devices == 0) {
    *why_not = reason.c_str();
    return nullptr;
  }
  return &plugin;
}
