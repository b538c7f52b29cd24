#include <cstdlib>

#include "finetune/core/text.h"
#include "finetune/doctor/finding.h"

namespace finetune::doctor {
namespace {

// CUresult values of cuInit that have a cause of their own (CUDA Driver API, "CUDA Driver Error Codes").
constexpr int kNoDevice = 100;
constexpr int kStubLibrary = 34;
constexpr int kSystemNotReady = 802;
constexpr int kDriverMismatch = 803;
constexpr int kCompatNotSupported = 804;

/// The first CUDA version of each LibTorch build, newest first, and the oldest driver it runs on. Within a
/// major version any driver of that major serves ("CUDA minor version compatibility").
struct Build {
  const char* tag;
  int cuda;
  const char* driver;
};
constexpr Build kBuilds[] = {{"cu130", 13000, "580"}, {"cu126", 12000, "525"}};

std::string version_text(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

/// "13.0" -> 13000
int version_number(const std::string& text) {
  const size_t dot = text.find('.');
  const int minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
  return std::atoi(text.c_str()) * 1000 + minor * 10;
}

std::string capability_text(const GpuFacts& gpu) {
  return std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
}

std::string plural(int64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::optional<Finding> judge_build(const MachineFacts& facts) {
  if (facts.libtorch.cuda.empty()) {
    return Finding{.id = "libtorch-cpu-build",
                   .seen = "LibTorch " + facts.libtorch.version + " in " + facts.libtorch.folder +
                           " is a build for the CPU",
                   .why = "it has no CUDA code: no setting makes it use a GPU",
                   .remedy =
                       "rm -r the LibTorch in that folder, run scripts/setup (it fetches the CUDA build) "
                       "and build again"};
  }
  if (facts.libtorch.cuda_library) return std::nullopt;
  return Finding{.id = "libtorch-cuda-missing",
                 .seen = "LibTorch was built with CUDA " + facts.libtorch.cuda + ", but " +
                         facts.libtorch.folder + "/lib has no libtorch_cuda.so",
                 .why = "the GPU's kernels are in that file",
                 .remedy = "scripts/setup"};
}

std::optional<Finding> judge_stray_driver(const MachineFacts& facts) {
  for (const StrayLibrary& stray : facts.stray_libraries) {
    if (stray.name != "libcuda.so.1") continue;
    return Finding{.id = "stray-libcuda",
                   .seen = "LD_LIBRARY_PATH puts " + stray.path + " before the driver's own libcuda.so.1",
                   .why =
                       "libcuda belongs to the kernel's driver: a stub or one of another version finds no "
                       "device, or fails later",
                   .remedy = "unset LD_LIBRARY_PATH, or take that folder out of it"};
  }
  return std::nullopt;
}

Finding no_driver(const MachineFacts& facts) {
  if (facts.pci_gpus > 0) {
    return {.id = "no-driver",
            .seen = plural(facts.pci_gpus, "NVIDIA GPU") +
                    " on the PCI bus, but no driver: libcuda.so.1 cannot "
                    "be opened (" +
                    facts.driver.problem + ")",
            .why = "nothing can use the GPU without its driver",
            .remedy = "apt install nvidia-driver-580 and reboot; in a container: start it with --gpus all"};
  }
  return {.id = "no-gpu",
          .seen = "no NVIDIA GPU on the PCI bus and no driver (libcuda.so.1)",
          .why = "training runs on the CPU",
          .remedy = ""};
}

Finding failed_init(const MachineFacts& facts) {
  const std::string code = "cuInit returned " + std::to_string(facts.driver.init_code);
  switch (facts.driver.init_code) {
    case kStubLibrary:
      return {.id = "stub-libcuda",
              .seen = code + ": " + facts.driver.path + " is the toolkit's stub, not a driver",
              .why = "stubs are there to link against and find no device",
              .remedy = "unset LD_LIBRARY_PATH, or take the stubs folder out of it"};
    case kDriverMismatch:
    case kCompatNotSupported:
      return {.id = "driver-mismatch",
              .seen = code + ": " + facts.driver.path + " does not belong to the loaded kernel module",
              .why = "the driver was updated without a reboot, or a compatibility libcuda is found first",
              .remedy = "reboot; if it stays, unset LD_LIBRARY_PATH"};
    case kSystemNotReady:
      return {.id = "system-not-ready",
              .seen = code + ": the GPUs' fabric is not up",
              .why = "GPUs joined by NVSwitch need the fabric manager before CUDA starts",
              .remedy = "systemctl start nvidia-fabricmanager"};
    default:
      return {.id = "driver-fails",
              .seen = code + " (" + facts.driver.path + ")",
              .why = "the driver is there but does not start",
              .remedy = "nvidia-smi; dmesg | grep -i nvrm; then reboot"};
  }
}

Finding no_device(const MachineFacts& facts) {
  const auto visible = facts.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != facts.environment.end()) {
    return {
        .id = "cuda-visible-devices",
        .seen = "CUDA_VISIBLE_DEVICES is '" + visible->second + "', which names no device of this machine",
        .why = "it hides every GPU from the process",
        .remedy = "unset CUDA_VISIBLE_DEVICES"};
  }
  return {.id = "no-device",
          .seen = "the NVIDIA driver " + facts.driver.version + " is there but reports no device",
          .why = "no GPU is given to this machine or container",
          .remedy = "nvidia-smi -L; in a container: start it with --gpus all"};
}

std::optional<Finding> judge_driver(const MachineFacts& facts) {
  if (!facts.driver.found) return no_driver(facts);
  if (facts.driver.init_code != 0 && facts.driver.init_code != kNoDevice) return failed_init(facts);
  if (facts.driver.num_devices == 0) return no_device(facts);
  const int needed = version_number(facts.libtorch.cuda);
  if (facts.driver.cuda_version / 1000 >= needed / 1000) return std::nullopt;
  Finding finding{.id = "driver-too-old",
                  .seen = "driver " + facts.driver.version + " runs CUDA up to " +
                          version_text(facts.driver.cuda_version) + "; LibTorch " + facts.libtorch.version +
                          " was built with CUDA " + facts.libtorch.cuda,
                  .why = "a driver runs programs of its own major CUDA version and of older ones"};
  const char* wanted_driver = kBuilds[0].driver;
  const char* fitting = nullptr;
  for (const Build& build : kBuilds) {
    if (build.cuda / 1000 == needed / 1000) wanted_driver = build.driver;
    if (fitting == nullptr && facts.driver.cuda_version >= build.cuda) fitting = build.tag;
  }
  finding.remedy = std::string("update the driver to ") + wanted_driver + " or later";
  finding.remedy += fitting != nullptr ? ", or build against LibTorch " + facts.libtorch.version + "+" +
                                             fitting + " (cmake -DCMAKE_PREFIX_PATH=ITS_FOLDER)"
                                       : "; no LibTorch " + facts.libtorch.version + " fits this one";
  return finding;
}

std::optional<Finding> judge_architecture(const MachineFacts& facts) {
  if (facts.libtorch.architectures.empty()) return std::nullopt;
  for (size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    if (architecture_fits(facts.libtorch.architectures, gpu.major, gpu.minor)) continue;
    return Finding{.id = "architecture",
                   .seen = "cuda:" + std::to_string(i) + " (" + gpu.name + ") has compute capability " +
                           capability_text(gpu) + "; this LibTorch is compiled for " +
                           join_some(facts.libtorch.architectures, facts.libtorch.architectures.size()),
                   .why = "its kernels cannot run there (\"no kernel image is available\")",
                   .remedy = "build against a LibTorch that has sm_" + std::to_string(gpu.major) +
                             std::to_string(gpu.minor) + ", or hide the device: CUDA_VISIBLE_DEVICES=..."};
  }
  return std::nullopt;
}

std::optional<Finding> judge_plugin(const MachineFacts& facts) {
  if (facts.plugin.usable) return std::nullopt;
  if (facts.plugin.path.empty()) {
    return Finding{.id = "plugin-missing",
                   .seen = "libfinetune_cuda.so is neither beside the program nor in ../lib",
                   .why = "all of the program's GPU code is in that file",
                   .remedy = "install a CUDA toolkit of version " + facts.libtorch.cuda +
                             ", then cmake -S . -B build -G Ninja -DFINETUNE_CUDA=ON && cmake --build build"};
  }
  return Finding{.id = "plugin-fails",
                 .seen = facts.plugin.path + ": " + facts.plugin.why_not,
                 .why = "the plugin is there but cannot be used",
                 .remedy = "scripts/setup, then build again: plugin and LibTorch must be of one version"};
}

/// Other processes on the GPUs, and libraries found before LibTorch's own: the GPU works, but.
void judge_neighbours(const MachineFacts& facts, std::vector<Finding>& findings) {
  for (size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    const bool busy = gpu.utilization.value_or(0) > 0.2;
    const bool full = gpu.other_bytes > gpu.memory_total / 10;
    if (!busy && !full) continue;
    findings.push_back(
        {.severity = Severity::kSlow,
         .id = "gpu-shared",
         .seen = "cuda:" + std::to_string(i) + ": " + std::to_string(gpu.other_processes) + " other process" +
                 (gpu.other_processes == 1 ? "" : "es") + " with " + std::to_string(gpu.other_bytes >> 20) +
                 " MiB, " + std::to_string(static_cast<int>(gpu.utilization.value_or(0) * 100)) + " % busy",
         .why = "they take time and memory from training, and every figure below is too low",
         .remedy = "nvidia-smi; choose another device with --set device=cuda:N"});
  }
  for (const StrayLibrary& stray : facts.stray_libraries) {
    if (stray.name == "libcuda.so.1") continue;
    findings.push_back({.severity = Severity::kNote,
                        .id = "stray-library",
                        .seen = "LD_LIBRARY_PATH puts " + stray.path + " before the one LibTorch came with",
                        .why = "another version of it can fail or be slow",
                        .remedy = "unset LD_LIBRARY_PATH, or take that folder out of it"});
  }
}

}  // namespace

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kGood:
      return "good";
    case Severity::kNote:
      return "note";
    case Severity::kSlow:
      return "slow";
    case Severity::kBroken:
      return "broken";
  }
  return "";
}

bool architecture_fits(const std::vector<std::string>& architectures, int major, int minor) {
  for (const std::string& architecture : architectures) {
    const size_t underscore = architecture.find('_');
    if (underscore == std::string::npos) continue;
    const int number = std::atoi(architecture.c_str() + underscore + 1);
    const int its_major = number / 10, its_minor = number % 10;
    const bool is_portable = architecture.rfind("compute_", 0) == 0;
    if (its_major == major && its_minor <= minor) return true;
    if (is_portable && its_major < major) return true;
  }
  return false;
}

std::vector<Finding> judge_cuda(const MachineFacts& facts, bool cuda_requested) {
  std::vector<Finding> findings;
  // Without the cause before it, a later one cannot be told: the first is the answer.
  std::optional<Finding> cause = judge_build(facts);
  if (!cause) {
    cause = judge_driver(facts);
    // Another libcuda explains most of what the driver says.
    if (cause && facts.driver.found) {
      if (auto stray = judge_stray_driver(facts)) cause = stray;
    }
  }
  if (!cause) cause = judge_architecture(facts);
  if (!cause) cause = judge_plugin(facts);
  if (cause) {
    const bool gpu_idle = facts.pci_gpus > 0 || facts.driver.num_devices > 0;
    cause->severity = cuda_requested ? Severity::kBroken : gpu_idle ? Severity::kSlow : Severity::kNote;
    if (cuda_requested && cause->id == "no-gpu") {
      cause->why = "device cuda was asked for";
      cause->remedy = "--set device=cpu, or take a machine with an NVIDIA GPU";
    }
    findings.push_back(*cause);
  } else {
    findings.push_back({.severity = Severity::kGood,
                        .id = "cuda-usable",
                        .seen = "CUDA is usable: LibTorch " + facts.libtorch.version + " built with CUDA " +
                                facts.libtorch.cuda + ", driver " + facts.driver.version + " (CUDA " +
                                version_text(facts.driver.cuda_version) + "), " +
                                plural(facts.driver.num_devices, "device"),
                        .why = "",
                        .remedy = ""});
    if (auto stray = judge_stray_driver(facts)) {
      stray->severity = Severity::kNote;
      findings.push_back(*stray);
    }
  }
  judge_neighbours(facts, findings);
  return findings;
}

}  // namespace finetune::doctor
