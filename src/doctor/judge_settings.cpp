#include <algorithm>
#include <cmath>
#include <cstdio>

#include "finetune/core/text.h"
#include "finetune/doctor/finding.h"

namespace finetune::doctor {
namespace {

/// A variable whose mere value is the problem.
struct SlowSetting {
  const char* variable;
  const char* bad_value;  ///< null: any value
  const char* why;
};

constexpr SlowSetting kSlowSettings[] = {
    {"CUDA_LAUNCH_BLOCKING", "1",
     "the host waits for every kernel: a debugging aid that makes a step several times slower"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", nullptr,
     "every tensor is allocated and freed by the driver, which waits for the device each time"},
    {"NVIDIA_TF32_OVERRIDE", "0", "TF32 products are off whatever the config says"},
    {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0", "TF32 products are off whatever the config says"},
    {"CUDA_MODULE_LOADING", "EAGER",
     "every kernel of every library is loaded at start: seconds and hundreds of MiB"},
    {"ATEN_CPU_CAPABILITY", "default", "the CPU's vector instructions are left unused"},
    {"MALLOC_TRIM_THRESHOLD_", "0",
     "freed memory goes back to the system at once and is fetched again each step"},
};

bool is_set(const MachineFacts& facts, const std::string& variable, std::string* value) {
  const auto found = facts.environment.find(variable);
  if (found == facts.environment.end()) return false;
  *value = found->second;
  return true;
}

void judge_variables(const MachineFacts& facts, std::vector<Finding>& findings) {
  std::string value;
  for (const SlowSetting& setting : kSlowSettings) {
    if (!is_set(facts, setting.variable, &value)) continue;
    if (setting.bad_value != nullptr && value != setting.bad_value) continue;
    findings.push_back({.severity = Severity::kSlow,
                        .id = "slow-setting",
                        .seen = std::string(setting.variable) + "=" + value,
                        .why = setting.why,
                        .remedy = std::string("unset ") + setting.variable});
  }
}

/// Options of CUDA's caching allocator that cost more than they give, in a run that allocates the same each
/// step.
void judge_allocator(const MachineFacts& facts, std::vector<Finding>& findings) {
  for (const char* variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    std::string value;
    if (!is_set(facts, variable, &value)) continue;
    std::string why;
    if (value.find("cudaMallocAsync") != std::string::npos) {
      why =
          "the driver's allocator gives no memory figures and does not work with CUDA graphs of several "
          "sizes";
    } else if (value.find("max_split_size_mb") != std::string::npos) {
      why = "large blocks are no longer split, so memory is reserved twice";
    } else if (value.find("garbage_collection_threshold") != std::string::npos) {
      why = "blocks are given back and fetched again in the middle of training";
    } else {
      continue;
    }
    findings.push_back({.severity = Severity::kSlow,
                        .id = "allocator-options",
                        .seen = std::string(variable) + "=" + value,
                        .why = why,
                        .remedy = std::string("unset ") + variable});
  }
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

void judge_threads(const MachineFacts& facts, int64_t threads, std::vector<Finding>& findings) {
  const CpuFacts& cpu = facts.cpu;
  const auto limit = cpu.quota > 0 ? static_cast<int64_t>(std::ceil(cpu.quota)) : cpu.usable;
  if (cpu.quota > 0 && threads > limit) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "cpu-quota",
                        .seen = std::to_string(threads) + " threads, but the container may use " +
                                number_text(cpu.quota) + " CPUs' worth of time",
                        .why = "the threads are stopped in turn, and each product waits for the slowest",
                        .remedy = "--set threads=" + std::to_string(std::max<int64_t>(limit, 1))});
  } else if (threads > cpu.usable) {
    findings.push_back(
        {.severity = Severity::kSlow,
         .id = "too-many-threads",
         .seen = std::to_string(threads) + " threads on " + std::to_string(cpu.usable) + " cores",
         .why = "threads that share a core wait for each other in every product",
         .remedy = "--set threads=0"});
  } else if (threads < std::min(limit, cpu.usable)) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "too-few-threads",
                        .seen = "threads is " + std::to_string(threads) + ", " + std::to_string(cpu.usable) +
                                " cores are free to use",
                        .why = "on the CPU the products use one core a thread",
                        .remedy = "--set threads=0"});
  }
  std::string value;
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    if (!is_set(facts, variable, &value) || value == std::to_string(threads)) continue;
    findings.push_back(
        {.severity = Severity::kNote,
         .id = "thread-variable",
         .seen = std::string(variable) + "=" + value + ", this program uses " + std::to_string(threads) +
                 (threads == 1 ? " thread" : " threads"),
         .why = "it is not heeded here; other programs are slowed or crowded by it",
         .remedy = std::string("--set threads=") + value + " if you mean it, else unset " + variable});
  }
  for (const char* variable : {"OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (!is_set(facts, variable, &value) || value == "false") continue;
    findings.push_back({.severity = Severity::kNote,
                        .id = "thread-binding",
                        .seen = std::string(variable) + "=" + value,
                        .why = "threads are tied to cores: two runs on one machine then share the same few",
                        .remedy = std::string("unset ") + variable + " when several runs share the machine"});
  }
}

void judge_cpu(const MachineFacts& facts, std::vector<Finding>& findings) {
  const CpuFacts& cpu = facts.cpu;
  const auto has = [&](const char* feature) {
    return std::find(cpu.features.begin(), cpu.features.end(), feature) != cpu.features.end();
  };
  if (!cpu.features.empty() && !has("avx2") && !has("asimd")) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "no-avx2",
                        .seen = cpu.name + " has no AVX2",
                        .why = "products take four times as long or more",
                        .remedy = "if this is a virtual machine, give it the host's CPU model"});
  }
  if (cpu.load > 0.75 * static_cast<double>(std::max<int64_t>(cpu.cores, 1))) {
    findings.push_back(
        {.severity = Severity::kNote,
         .id = "machine-busy",
         .seen = "load " + number_text(cpu.load) + " on " + std::to_string(cpu.cores) + " cores",
         .why = "other programs are running: every figure below is too low",
         .remedy = "uptime; top"});
  }
  if (cpu.memory_total > 0 && cpu.memory_available < cpu.memory_total / 10) {
    findings.push_back({.severity = Severity::kSlow,
                        .id = "memory-low",
                        .seen = std::to_string(cpu.memory_available >> 20) + " MiB of memory available of " +
                                std::to_string(cpu.memory_total >> 20),
                        .why = "the system begins to swap, or ends a process",
                        .remedy = "free -h; top -o %MEM"});
  }
}

}  // namespace

std::vector<Finding> judge_settings(const MachineFacts& facts, int64_t threads) {
  std::vector<Finding> findings;
  judge_variables(facts, findings);
  judge_allocator(facts, findings);
  judge_threads(facts, threads, findings);
  judge_cpu(facts, findings);
  return findings;
}

}  // namespace finetune::doctor
