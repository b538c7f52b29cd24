#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace finetune::doctor {

struct CpuFacts {
  std::string name;
  std::vector<std::string>
      features;                  ///< instruction sets that matter to training, as /proc/cpuinfo names them
  std::string isa;               ///< what LibTorch and the kernels use: "AVX2", "AVX512", "DEFAULT"
  int64_t cores = 0;             ///< of the machine
  int64_t usable = 0;            ///< that this process may run on
  double quota = 0;              ///< CPUs' worth of time a control group grants; 0: no limit
  double load = 0;               ///< runnable tasks, averaged over the last minute
  int64_t memory_total = 0;      ///< bytes
  int64_t memory_available = 0;  ///< bytes
};

struct LibTorchFacts {
  std::string version;                     ///< "2.11.0"
  std::string folder;                      ///< the one that holds lib/
  std::string cuda;                        ///< CUDA version it was built with; empty: a build for the CPU
  bool cuda_library = false;               ///< libtorch_cuda.so is there
  std::string cudart, cudnn, nccl;         ///< versions of the libraries beside it; empty: not found
  std::vector<std::string> architectures;  ///< "sm_90", "compute_120"; known once its CUDA part is loaded
};

/// What libcuda says.
struct DriverFacts {
  bool found = false;   ///< libcuda.so.1 could be opened
  std::string path;     ///< of the library in use
  std::string problem;  ///< why it could not be opened
  int init_code = 0;    ///< CUresult of cuInit
  int num_devices = 0;
  int cuda_version = 0;  ///< newest CUDA it can run: 13000 is 13.0
  std::string version;   ///< "580.65.06"
};

struct GpuFacts {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int64_t memory_total = 0;  ///< bytes
  std::optional<int64_t> memory_free;
  std::optional<double> utilization;  ///< 0 to 1, before anything was started here
  std::optional<double> power_w;
  int64_t other_processes = 0;
  int64_t other_bytes = 0;  ///< memory those hold
};

/// The plugin libfinetune_cuda.so.
struct PluginFacts {
  std::string path;  ///< empty: not found
  bool usable = false;
  std::string why_not;
};

/// A library on LD_LIBRARY_PATH that is loaded before the one that belongs there.
struct StrayLibrary {
  std::string name;
  std::string path;
};

/// All that is known of a machine before anything is measured.
struct MachineFacts {
  CpuFacts cpu;
  LibTorchFacts libtorch;
  DriverFacts driver;
  PluginFacts plugin;
  std::vector<GpuFacts> gpus;                      ///< in CUDA's order
  int64_t pci_gpus = 0;                            ///< NVIDIA display or compute devices on the PCI bus
  std::string toolkit;                             ///< of nvcc, "13.0"; empty: none
  std::map<std::string, std::string> environment;  ///< variables that are set, of those that matter
  std::vector<StrayLibrary> stray_libraries;
};

}  // namespace finetune::doctor
