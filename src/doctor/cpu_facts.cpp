#include <ATen/Version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "finetune/core/file.h"
#include "finetune/device/available_memory.h"
#include "finetune/device/device.h"
#include "machine.h"

namespace finetune::doctor {
namespace {

constexpr const char* kFeatures[] = {"avx2",        "fma",         "avx512f",  "avx512_vnni",
                                     "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
                                     "asimd",       "sve",         "bf16",     "asimdhp"};

std::string first_line(const char* file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return "";
  const std::string text = read_file(file);
  return text.substr(0, text.find('\n'));
}

/// Those of the processor's features that decide how fast it trains.
std::vector<std::string> features() {
  std::vector<std::string> found;
  for (const std::string& feature : cpu_features()) {
    if (std::find(std::begin(kFeatures), std::end(kFeatures), feature) != std::end(kFeatures))
      found.push_back(feature);
  }
  return found;
}

double cpu_quota() {
  const std::string version2 = first_line("/sys/fs/cgroup/cpu.max");
  if (!version2.empty()) return parse_cpu_quota(version2);
  const std::string quota = first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  return quota.empty() ? 0
                       : parse_cpu_quota(quota + " " + first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
}

}  // namespace

double parse_cpu_quota(const std::string& text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

CpuFacts read_cpu_facts() {
  CpuFacts cpu;
  cpu.name = field_of_file("/proc/cpuinfo", "model name");
  if (cpu.name.empty()) cpu.name = "CPU";
  cpu.features = features();
  cpu.isa = at::get_cpu_capability();
  cpu.cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  cpu.usable = available_threads();
  cpu.quota = cpu_quota();
  cpu.load = std::atof(first_line("/proc/loadavg").c_str());
  cpu.memory_total = system_memory("MemTotal");
  cpu.memory_available = system_memory("MemAvailable");
  return cpu;
}

}  // namespace finetune::doctor
