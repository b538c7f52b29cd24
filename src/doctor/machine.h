#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "finetune/doctor/facts.h"

namespace finetune::doctor {

// The parts of the machine's facts, each from its own source.

CpuFacts read_cpu_facts();

/// Of the LibTorch that this process runs on. `cuda_loaded`: its CUDA part is in the process, so that it can
/// be asked what it was compiled for.
LibTorchFacts read_libtorch_facts(bool cuda_loaded);

/// CPUs' worth of time from the text of cgroup v2's cpu.max ("150000 100000": 1.5); 0 for "max".
double parse_cpu_quota(const std::string& text);

/// "13.0" from LibTorch's version.py; "" for a CPU build.
std::string parse_torch_cuda(const std::string& version_py);

/// "sm_80", "compute_120", ... from the text of `at::show_config()`.
std::vector<std::string> parse_architectures(const std::string& show_config);

/// libcuda.so.1 and libcudart.so.* in folders of LD_LIBRARY_PATH. `own_folder`: where LibTorch's lie.
std::vector<StrayLibrary> find_stray_libraries(const std::string& library_path,
                                               const std::string& own_folder);

/// libcuda.so.1, opened at run time. Creates no CUDA context.
class Driver {
 public:
  Driver();
  const DriverFacts& facts() const { return facts_; }
  /// Name, capability, memory and PCI address of each device.
  struct Device {
    GpuFacts facts;
    std::string pci_address;
  };
  const std::vector<Device>& devices() const { return devices_; }

 private:
  DriverFacts facts_;
  std::vector<Device> devices_;
};

/// libnvidia-ml.so.1, opened at run time; without it nothing is known.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;
  /// Adds what NVML knows of the device at a PCI address.
  void describe(const std::string& pci_address, GpuFacts& gpu) const;
  std::optional<double> utilization(const std::string& pci_address) const;

 private:
  struct Functions;
  void* device(const std::string& pci_address) const;

  std::unique_ptr<Functions> functions_;  ///< null where NVML cannot be used
};

}  // namespace finetune::doctor
