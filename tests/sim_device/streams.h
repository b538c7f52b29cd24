#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace finetune::sim {

/// What LibTorch's guards, streams and events of the device stand on.
c10::impl::DeviceGuardImplInterface& device_guard();

}  // namespace finetune::sim
