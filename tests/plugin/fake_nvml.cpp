// Stands in for the driver's management library in a test: two GPUs, of which the second does not tell its
// power.

#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kNotSupported = 3;

int gpus[2];

}  // namespace

extern "C" {

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

int nvmlInit_v2();
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** device);
int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization);
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts);

int nvmlInit_v2() { return kSuccess; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** device) {
  const bool is_first = std::strcmp(pci_bus_id, "0000:01:00.0") == 0;
  if (!is_first && std::strcmp(pci_bus_id, "0000:02:00.0") != 0) return kNotFound;
  *device = &gpus[is_first ? 0 : 1];
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  *utilization = {device == &gpus[0] ? 73u : 5u, 11u};
  return kSuccess;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &gpus[0]) return kNotSupported;
  *milliwatts = 412500;
  return kSuccess;
}
}
