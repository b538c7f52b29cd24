#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace finetune::doctor {

/// One thing that has to be on the device, and the tensors it is made of.
struct Placed {
  std::string what{};
  std::vector<at::Tensor> tensors{};  ///< undefined ones do not count
};

/// A row of the checklist.
struct PlacementRow {
  std::string what{};
  int64_t num_tensors = 0;
  int64_t bytes = 0;
  std::vector<std::string> devices{};  ///< where they are; empty where there are none
  bool ok = true;                      ///< all on the device, or none there
};

/// Checks that everything is on one device.
std::vector<PlacementRow> audit_placement(const std::vector<Placed>& things, c10::Device device);

}  // namespace finetune::doctor
