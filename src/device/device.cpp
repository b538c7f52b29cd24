#include "finetune/device/device.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sched.h>
#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/version.h"
#include "finetune/device/plugin.h"
#include "tensor_memory.h"

namespace finetune {
namespace {

class CpuServices final : public DeviceServices {
 public:
  MemoryStats memory(c10::Device) const override {
    int64_t total_pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
    const int64_t resident = resident_pages * ::sysconf(_SC_PAGESIZE);
    rusage use{};
    ::getrusage(RUSAGE_SELF, &use);  // its peak is updated less often than the current value
    return {.allocated = resident,
            .reserved = resident,
            .peak = std::max<int64_t>(resident, int64_t{use.ru_maxrss} * 1024)};
  }
  void synchronize(c10::Device) const override {}
  bool has_fast_bf16(c10::Device) const override {
    const auto features = cpu_features();
    return std::any_of(features.begin(), features.end(), [](const std::string& feature) {
      return feature == "avx512_bf16" || feature == "amx_bf16";
    });
  }
  std::string describe(c10::Device) const override {
    std::ostringstream text;
    const std::string name = field_of_file("/proc/cpuinfo", "model name");
    text << (name.empty() ? "CPU" : name) << ", " << at::get_num_threads() << " threads, "
         << at::get_cpu_capability();
    return text.str();
  }
};

const CpuServices& cpu_services() {
  static const CpuServices services;
  return services;
}

/// Nothing where LibTorch knows no such device.
std::optional<c10::Device> parse_device(const std::string& request) {
  try {
    return c10::Device(request);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

OpenDevice open_cpu(std::string reason) {
  keep_tensor_memory();
  return {c10::Device(c10::kCPU), &cpu_services(), std::move(reason)};
}

}  // namespace

std::vector<std::string> cpu_features() {
  std::string line = field_of_file("/proc/cpuinfo", "flags");
  if (line.empty()) line = field_of_file("/proc/cpuinfo", "Features");  // ARM's word
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

int64_t available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

OpenDevice open_device(const std::string& request, int64_t threads) {
  at::set_num_threads(static_cast<int>(threads > 0 ? threads : available_threads()));
  if (request == "cpu") return open_cpu("asked for");
  if (request == "auto") {
    std::string why_not;
    const DevicePlugin* cuda = load_device_plugin("cuda", &why_not);
    if (cuda == nullptr) return open_cpu("no usable GPU: " + why_not);
    return {c10::Device(c10::kCUDA, 0), cuda->services, "a usable GPU was found"};
  }
  // First the plugin: it may bring the name of its device.
  std::string why_not;
  const DevicePlugin* plugin = load_device_plugin(request.substr(0, request.find(':')), &why_not);
  const std::optional<c10::Device> device = parse_device(request);
  if (!device) throw ConfigError("device: found '" + request + "', expected auto, cpu, cuda or cuda:N");
  if (plugin == nullptr) {
    throw DeviceError("device '" + request + "' cannot be used: " + why_not +
                      "; choose device cpu, or mend the cause");
  }
  const auto index = static_cast<c10::DeviceIndex>(device->has_index() ? device->index() : 0);
  if (index >= plugin->num_devices) {
    throw DeviceError("device '" + request + "': this machine has " + std::to_string(plugin->num_devices) +
                      " such device(s), numbered from 0");
  }
  return {c10::Device(device->type(), index), plugin->services, "asked for"};
}

Json describe_environment(const OpenDevice& device) {
  return Json{{"finetune", FINETUNE_VERSION},    {"libtorch", TORCH_VERSION},
              {"device", device.device.str()},   {"device_name", device.services->describe(device.device)},
              {"device_reason", device.reason},  {"isa", at::get_cpu_capability()},
              {"threads", at::get_num_threads()}};
}

}  // namespace finetune
