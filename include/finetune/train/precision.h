#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "finetune/config/run_config.h"
#include "finetune/device/device.h"

namespace finetune {

/// A run's number format, decided.
struct ResolvedPrecision {
  Precision precision = Precision::kFp32;  ///< never kAuto
  std::string name;                        ///< "fp32", "tf32", "bf16", "fp16"
  at::ScalarType activations = at::kFloat;
  bool scales_loss = false;
};

/// Decides `auto` by the device, or by what a resumed run was made with (`saved`: its name), and sets what
/// LibTorch has to know of it. Throws `ConfigError` where the device has no such format. A choice that is
/// slow on this device is said.
ResolvedPrecision resolve_precision(Precision requested, const OpenDevice& device,
                                    const std::optional<std::string>& saved);

}  // namespace finetune
