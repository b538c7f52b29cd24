#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "finetune/device/device.h"

namespace finetune {

/// Floating-point operations a second (a multiplication and an addition are two) that products of square
/// matrices of this type reach on the device: what the rate of a training step is compared with. Takes some
/// milliseconds and waits for the device, so it is measured once, and not within a step. Takes at most
/// `most_bytes` of the device's memory; nothing where that is too little.
std::optional<double> measure_product_rate(const OpenDevice& device, at::ScalarType dtype,
                                           int64_t most_bytes);

}  // namespace finetune
