#include "finetune/device/product_rate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "finetune/core/clock.h"

namespace finetune {
namespace {

/// Large enough to fill any GPU.
constexpr int64_t kLargestSide = 4096;
/// A product that takes so long shows the rate well.
constexpr double kLongEnough = 2e-3;
constexpr int kRepeats = 3;

}  // namespace

std::optional<double> measure_product_rate(const OpenDevice& device, at::ScalarType dtype,
                                           int64_t most_bytes) try {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(dtype).device(device.device);
  std::optional<double> rate;
  const auto fits = [&](int64_t side) {
    return 3 * side * side * static_cast<int64_t>(c10::elementSize(dtype)) <= most_bytes;
  };
  double best = 0;
  for (int64_t side = 128; side <= kLargestSide && fits(side) && best < kLongEnough; side *= 2) {
    const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
    at::Tensor product = at::mm(a, b);  // the first one also sets the library up
    for (int i = 0; i < kRepeats; ++i) {
      device.services->synchronize(device.device);
      const double began = monotonic_seconds();
      at::mm_out(product, a, b);
      device.services->synchronize(device.device);
      const double seconds = std::max(monotonic_seconds() - began, 1e-9);
      best = i == 0 ? seconds : std::min(best, seconds);
    }
    const auto n = static_cast<double>(side);
    rate = 2 * n * n * n / best;
  }
  return rate;
} catch (const c10::OutOfMemoryError&) {
  return std::nullopt;  // another process took the memory
}

}  // namespace finetune
