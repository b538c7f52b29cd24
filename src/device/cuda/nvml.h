#pragma once

#include <string>

#include "finetune/device/device.h"

namespace finetune {

/// How busy the GPU with this PCI address is, by the driver's management library (libnvidia-ml). Loaded at
/// the first call; where it is missing or does not tell, nothing is set. Does not wait for the GPU.
DeviceUse nvml_use(const std::string& pci_bus_id);

}  // namespace finetune
