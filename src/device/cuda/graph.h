#pragma once

#include <functional>
#include <memory>

#include "finetune/device/device.h"

namespace finetune {

/// Records `work` as a CUDA graph (see DeviceServices::record).
std::unique_ptr<RecordedWork> record_cuda_graph(c10::Device device, const std::function<void()>& work);

}  // namespace finetune
