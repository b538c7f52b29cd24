#include "nvml.h"

#include <dlfcn.h>

namespace finetune {
namespace {

/// The little that is used of nvml.h, which CUDA's wheels do not bring.
using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned gpu;  ///< percent
  unsigned memory;
};
constexpr int kNvmlSuccess = 0;

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

/// The library's functions, or null ones.
struct Nvml {
  int (*init)() = nullptr;
  int (*handle_by_pci_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  bool usable = false;

  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    find(library, "nvmlInit_v2", init);
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", handle_by_pci_bus_id);
    find(library, "nvmlDeviceGetUtilizationRates", utilization);
    find(library, "nvmlDeviceGetPowerUsage", power);
    usable = init != nullptr && handle_by_pci_bus_id != nullptr && utilization != nullptr &&
             power != nullptr && init() == kNvmlSuccess;
  }
};

}  // namespace

DeviceUse nvml_use(const std::string& pci_bus_id) {
  static const Nvml nvml;
  DeviceUse use;
  NvmlDevice device = nullptr;
  if (!nvml.usable || nvml.handle_by_pci_bus_id(pci_bus_id.c_str(), &device) != kNvmlSuccess) return use;
  NvmlUtilization utilization = {};
  if (nvml.utilization(device, &utilization) == kNvmlSuccess) use.utilization = utilization.gpu / 100.0;
  unsigned milliwatts = 0;
  if (nvml.power(device, &milliwatts) == kNvmlSuccess) use.power_w = milliwatts / 1000.0;
  return use;
}

}  // namespace finetune
