#include "finetune/doctor/audit.h"

#include <set>

namespace finetune::doctor {

std::vector<PlacementRow> audit_placement(const std::vector<Placed>& things, c10::Device device) {
  std::vector<PlacementRow> rows;
  for (const Placed& thing : things) {
    PlacementRow row{.what = thing.what};
    std::set<std::string> devices;
    for (const at::Tensor& tensor : thing.tensors) {
      if (!tensor.defined()) continue;
      ++row.num_tensors;
      row.bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
      devices.insert(tensor.device().str());
      row.ok = row.ok && tensor.device() == device;
    }
    row.devices.assign(devices.begin(), devices.end());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace finetune::doctor
