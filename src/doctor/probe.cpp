#include "finetune/doctor/probe.h"

#include <cstdlib>
#include <filesystem>

#include "finetune/core/file.h"
#include "finetune/core/json.h"
#include "finetune/device/plugin.h"
#include "machine.h"

namespace finetune::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariables[] = {"ATEN_CPU_CAPABILITY",
                                      "CUDA_DEVICE_ORDER",
                                      "CUDA_HOME",
                                      "CUDA_LAUNCH_BLOCKING",
                                      "CUDA_MODULE_LOADING",
                                      "CUDA_VISIBLE_DEVICES",
                                      "GOMP_CPU_AFFINITY",
                                      "KMP_AFFINITY",
                                      "LD_LIBRARY_PATH",
                                      "LD_PRELOAD",
                                      "MALLOC_TRIM_THRESHOLD_",
                                      "MKL_NUM_THREADS",
                                      "NVIDIA_TF32_OVERRIDE",
                                      "OMP_NUM_THREADS",
                                      "OMP_PROC_BIND",
                                      "PYTORCH_ALLOC_CONF",
                                      "PYTORCH_CUDA_ALLOC_CONF",
                                      "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                      "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"};

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> environment;
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) environment.emplace(name, value);
  }
  return environment;
}

std::string trimmed_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  std::string text = read_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// NVIDIA devices of the display and processing classes.
int64_t count_pci_gpus() {
  int64_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    const std::string device_class = trimmed_file(entry.path() / "class");
    if (trimmed_file(entry.path() / "vendor") != "0x10de") continue;
    if (device_class.rfind("0x03", 0) == 0 || device_class.rfind("0x12", 0) == 0) ++count;
  }
  return count;
}

/// The version of the toolkit whose nvcc would be used: CUDA_HOME, PATH, /usr/local/cuda.
std::string toolkit_version() {
  std::vector<fs::path> folders;
  if (const char* home = std::getenv("CUDA_HOME")) folders.emplace_back(home);
  folders.emplace_back("/usr/local/cuda");
  for (const fs::path& folder : folders) {
    const Json version =
        Json::parse(trimmed_file(folder / "version.json"), nullptr, /*allow_exceptions=*/false);
    if (version.is_discarded() || !version.contains("cuda")) continue;
    return version.at("cuda").value("version", "");
  }
  return "";
}

class MachineProbe final : public Probe {
 public:
  MachineFacts look() const override {
    MachineFacts facts;
    facts.environment = read_environment();
    facts.driver = driver_.facts();
    facts.driver.version = nvml_.driver_version();
    for (const Driver::Device& device : driver_.devices()) {
      facts.gpus.push_back(device.facts);
      nvml_.describe(device.pci_address, facts.gpus.back());
    }
    if (const auto path = find_device_plugin("cuda")) facts.plugin.path = path->string();
    facts.plugin.usable = load_device_plugin("cuda", &facts.plugin.why_not) != nullptr;
    facts.libtorch = read_libtorch_facts(facts.plugin.usable);
    facts.cpu = read_cpu_facts();
    facts.pci_gpus = count_pci_gpus();
    facts.toolkit = toolkit_version();
    const auto library_path = facts.environment.find("LD_LIBRARY_PATH");
    if (library_path != facts.environment.end()) {
      facts.stray_libraries = find_stray_libraries(library_path->second, facts.libtorch.folder + "/lib");
    }
    return facts;
  }

  std::optional<double> utilization(int index) const override {
    const auto position = static_cast<size_t>(index);
    if (position >= driver_.devices().size()) return std::nullopt;
    return nvml_.utilization(driver_.devices()[position].pci_address);
  }

 private:
  Driver driver_;
  Nvml nvml_;
};

}  // namespace

std::unique_ptr<Probe> machine_probe() { return std::make_unique<MachineProbe>(); }

}  // namespace finetune::doctor
