#pragma once

#include <memory>
#include <optional>

#include "finetune/doctor/facts.h"

namespace finetune::doctor {

/// Where facts about the machine come from: the machine, or a test.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual MachineFacts look() const = 0;
  /// Share of the last moments, 0 to 1, in which GPU `index` (CUDA's order) ran anything; nothing where there
  /// is no telling.
  virtual std::optional<double> utilization(int index) const = 0;
};

/// Looks at this machine: environment, /proc, /sys, the driver and NVML (opened at run time: neither has to
/// be there). Loads the GPU plugin before it asks LibTorch anything about CUDA.
std::unique_ptr<Probe> machine_probe();

}  // namespace finetune::doctor
