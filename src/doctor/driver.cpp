#include <dlfcn.h>

#include <array>

#include "machine.h"

namespace finetune::doctor {
namespace {

// Attributes of cuDeviceGetAttribute.
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string path_of(void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// The part of the driver's interface that tells of devices without creating a context on them.
struct DriverFunctions {
  explicit DriverFunctions(void* library)
      : init(symbol<int (*)(unsigned)>(library, "cuInit")),
        version(symbol<int (*)(int*)>(library, "cuDriverGetVersion")),
        count(symbol<int (*)(int*)>(library, "cuDeviceGetCount")),
        name(symbol<int (*)(char*, int, int)>(library, "cuDeviceGetName")),
        attribute(symbol<int (*)(int*, int, int)>(library, "cuDeviceGetAttribute")),
        total_memory(symbol<int (*)(size_t*, int)>(library, "cuDeviceTotalMem_v2")),
        pci_address(symbol<int (*)(char*, int, int)>(library, "cuDeviceGetPCIBusId")) {}

  bool complete() const {
    return init && version && count && name && attribute && total_memory && pci_address;
  }

  int (*init)(unsigned);
  int (*version)(int*);
  int (*count)(int*);
  int (*name)(char*, int, int);
  int (*attribute)(int*, int, int);
  int (*total_memory)(size_t*, int);
  int (*pci_address)(char*, int, int);
};

Driver::Device describe_device(const DriverFunctions& driver, int index) {
  Driver::Device device;
  std::array<char, 128> text{};
  if (driver.name(text.data(), static_cast<int>(text.size()), index) == 0) device.facts.name = text.data();
  driver.attribute(&device.facts.major, kCapabilityMajor, index);
  driver.attribute(&device.facts.minor, kCapabilityMinor, index);
  size_t bytes = 0;
  if (driver.total_memory(&bytes, index) == 0) device.facts.memory_total = static_cast<int64_t>(bytes);
  text.fill(0);
  if (driver.pci_address(text.data(), static_cast<int>(text.size()), index) == 0)
    device.pci_address = text.data();
  return device;
}

}  // namespace

Driver::Driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    facts_.problem = ::dlerror();
    return;
  }
  facts_.found = true;
  const DriverFunctions driver(library);
  if (!driver.complete()) {
    facts_.problem = "it lacks functions of the CUDA driver interface";
    facts_.init_code = -1;
    return;
  }
  facts_.path = path_of(reinterpret_cast<void*>(driver.init));
  driver.version(&facts_.cuda_version);
  facts_.init_code = driver.init(0);
  if (facts_.init_code != 0 || driver.count(&facts_.num_devices) != 0) return;
  for (int index = 0; index < facts_.num_devices; ++index) devices_.push_back(describe_device(driver, index));
}

namespace {

// Layouts of NVML (nvml.h).
struct NvmlUtilization {
  unsigned gpu, memory;  ///< percent
};
struct NvmlMemory {
  unsigned long long total, free, used;  // NOLINT: as the header has it
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;  // NOLINT: as the header has it
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kUnknownBytes = ~0ULL;  // NOLINT: as the header has it

}  // namespace

struct Nvml::Functions {
  explicit Functions(void* library)
      : init(symbol<int (*)()>(library, "nvmlInit_v2")),
        shutdown(symbol<int (*)()>(library, "nvmlShutdown")),
        driver_version(symbol<int (*)(char*, unsigned)>(library, "nvmlSystemGetDriverVersion")),
        by_address(symbol<int (*)(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2")),
        utilization(symbol<int (*)(void*, NvmlUtilization*)>(library, "nvmlDeviceGetUtilizationRates")),
        memory(symbol<int (*)(void*, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo")),
        power(symbol<int (*)(void*, unsigned*)>(library, "nvmlDeviceGetPowerUsage")),
        processes(symbol<int (*)(void*, unsigned*, NvmlProcess*)>(
            library, "nvmlDeviceGetComputeRunningProcesses_v3")) {}

  bool complete() const {
    return init && shutdown && driver_version && by_address && utilization && memory && power && processes;
  }

  int (*init)();
  int (*shutdown)();
  int (*driver_version)(char*, unsigned);
  int (*by_address)(const char*, void**);
  int (*utilization)(void*, NvmlUtilization*);
  int (*memory)(void*, NvmlMemory*);
  int (*power)(void*, unsigned*);
  int (*processes)(void*, unsigned*, NvmlProcess*);
};

Nvml::Nvml() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return;
  auto functions = std::make_unique<Functions>(library);
  if (functions->complete() && functions->init() == 0) functions_ = std::move(functions);
}

Nvml::~Nvml() {
  if (functions_) functions_->shutdown();
}

void* Nvml::device(const std::string& pci_address) const {
  void* handle = nullptr;
  if (!functions_ || functions_->by_address(pci_address.c_str(), &handle) != 0) return nullptr;
  return handle;
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (functions_) functions_->driver_version(text.data(), static_cast<unsigned>(text.size()));
  return text.data();
}

std::optional<double> Nvml::utilization(const std::string& pci_address) const {
  void* handle = device(pci_address);
  NvmlUtilization rates{};
  if (handle == nullptr || functions_->utilization(handle, &rates) != 0) return std::nullopt;
  return rates.gpu / 100.0;
}

void Nvml::describe(const std::string& pci_address, GpuFacts& gpu) const {
  void* handle = device(pci_address);
  if (handle == nullptr) return;
  gpu.utilization = utilization(pci_address);
  NvmlMemory memory{};
  if (functions_->memory(handle, &memory) == 0) gpu.memory_free = static_cast<int64_t>(memory.free);
  unsigned milliwatts = 0;
  if (functions_->power(handle, &milliwatts) == 0) gpu.power_w = milliwatts / 1000.0;
  std::array<NvmlProcess, 64> processes{};
  auto count = static_cast<unsigned>(processes.size());
  if (functions_->processes(handle, &count, processes.data()) != 0) return;
  // No context exists here yet, so each of them is another process.
  gpu.other_processes = count;
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].bytes != kUnknownBytes) gpu.other_bytes += static_cast<int64_t>(processes[i].bytes);
  }
}

}  // namespace finetune::doctor
