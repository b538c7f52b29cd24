/// The device as the program loads it: `libfinetune_sim.so` from FINETUNE_PLUGIN_PATH, through the interface
/// that the GPU's plugin has. The environment tells it what a test wants of a run it starts:
///
///     FINETUNE_SIM_REPORT=FILE      writes counters, memory and violations as JSON when the process ends
///     FINETUNE_SIM_BUDGET=BYTES     of sim:0
///     FINETUNE_SIM_FAIL=KIND:N      the N-th allocation, copy or launch from loading on fails

#include "finetune/device/plugin.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "finetune/core/json.h"
#include "recording.h"
#include "sim_device.h"
#include "state.h"
#include "streams.h"

namespace finetune::sim {
namespace {

class SimServices final : public DeviceServices {
 public:
  MemoryStats memory(c10::Device device) const override {
    const Memory memory = sim::memory(device.index());
    return {.allocated = memory.allocated, .reserved = memory.reserved, .peak = memory.peak_allocated};
  }
  void synchronize(c10::Device device) const override { device_guard().synchronizeDevice(device.index()); }
  std::string describe(c10::Device) const override { return "simulated accelerator, runs on the CPU"; }
  std::unique_ptr<RecordedWork> record(c10::Device, const std::function<void()>& work) const override {
    return sim::record(work);
  }
  void forbid_host_reads(bool forbidden) const override {
    const Locked s;
    s->strict = forbidden ? StrictSection::kWaits : StrictSection::kNothing;
    s->counters.strict_sections += forbidden ? 1 : 0;
  }
};

Json to_json(const Memory& memory) {
  return Json{{"allocated", memory.allocated},
              {"peak_allocated", memory.peak_allocated},
              {"reserved", memory.reserved},
              {"peak_reserved", memory.peak_reserved}};
}

Json report() {
  const Counters now = counters();
  Json devices = Json::array();
  for (int index = 0; index < kDevices; ++index) devices.push_back(to_json(memory(index)));
  return Json{{"allocations", now.allocations},
              {"kernels", now.kernels},
              {"host_reads", now.host_reads},
              {"async_reads", now.async_reads},
              {"uploads_pageable", now.uploads_pageable},
              {"uploads_pinned", now.uploads_pinned},
              {"upload_bytes", now.upload_bytes},
              {"download_bytes", now.download_bytes},
              {"peer_copies", now.peer_copies},
              {"host_waits", now.host_waits},
              {"cpu_scalars", now.cpu_scalars},
              {"foreign_operands", now.foreign_operands},
              {"copied_results", now.copied_results},
              {"strict_sections", now.strict_sections},
              {"launches", now.launches},
              {"reads", now.reads},
              {"violations", take_violations()},
              {"memory", devices},
              {"pinned_memory", to_json(pinned_memory())},
              {"host_memory", to_json(host_memory())}};
}

/// The number that all of `text` is, if it is one above 0; else 0.
int64_t positive_number(const std::string& text) {
  std::istringstream stream(text);
  int64_t number = 0;
  char rest = 0;
  return stream >> number && !(stream >> rest) && number > 0 ? number : 0;
}

bool arm_failure(const std::string& text) {
  const size_t colon = text.find(':');
  const int64_t number = colon == std::string::npos ? 0 : positive_number(text.substr(colon + 1));
  const std::map<std::string, Operation> kinds{
      {"allocation", Operation::kAllocation}, {"copy", Operation::kCopy}, {"launch", Operation::kLaunch}};
  const auto kind = kinds.find(text.substr(0, colon));
  if (number == 0 || kind == kinds.end()) return false;
  fail_on(kind->second, number);
  return true;
}

/// Does what the environment asks for. Returns what is wrong with it, or null.
const char* read_environment() {
  if (const char* budget = std::getenv("FINETUNE_SIM_BUDGET")) {
    if (positive_number(budget) == 0) return "FINETUNE_SIM_BUDGET is no number of bytes above 0";
    set_budget(0, positive_number(budget));
  }
  if (const char* failure = std::getenv("FINETUNE_SIM_FAIL"); failure && !arm_failure(failure)) {
    return "FINETUNE_SIM_FAIL is none of allocation:N, copy:N and launch:N with N from 1";
  }
  if (const char* file = std::getenv("FINETUNE_SIM_REPORT")) {
    static const std::string path = file;
    std::atexit([] { std::ofstream(path) << report().dump(1) << "\n"; });
  }
  return nullptr;
}

}  // namespace
}  // namespace finetune::sim

extern "C" const finetune::DevicePlugin* finetune_device_plugin(const char** why_not) {
  static const finetune::sim::SimServices services;
  static const finetune::DevicePlugin plugin{.services = &services, .num_devices = finetune::sim::kDevices};
  if (const char* problem = finetune::sim::read_environment()) {
    *why_not = problem;
    return nullptr;
  }
  finetune::sim::report_stray_accesses();
  return &plugin;
}
