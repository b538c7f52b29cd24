#include "finetune/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace finetune {
namespace {

/// transformers' lr_end of get_polynomial_decay_schedule_with_warmup, and its power.
constexpr double kPolynomialEnd = 1e-7;

double factor(ScheduleType type, int64_t step, int64_t warmup, int64_t num_steps, double peak) {
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, warmup));
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(1, num_steps - warmup));
  switch (type) {
    case ScheduleType::kConstant:
      return 1.0;
    case ScheduleType::kLinear:
      return std::max(0.0, 1.0 - progress);
    case ScheduleType::kCosine:
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case ScheduleType::kPolynomial: {
      if (step > num_steps) return kPolynomialEnd / peak;
      return ((peak - kPolynomialEnd) * (1.0 - progress) + kPolynomialEnd) / peak;
    }
    case ScheduleType::kInverseSqrt: {
      const double timescale = warmup > 0 ? static_cast<double>(warmup) : 10000.0;
      const double shift = timescale - static_cast<double>(warmup);
      return 1.0 / std::sqrt((static_cast<double>(step) + shift) / timescale);
    }
  }
  return 1.0;
}

}  // namespace

std::vector<float> learning_rates(const ScheduleConfig& schedule, double peak, int64_t num_steps) {
  const int64_t warmup =
      schedule.warmup < 1.0
          ? static_cast<int64_t>(std::ceil(schedule.warmup * static_cast<double>(num_steps)))
          : static_cast<int64_t>(schedule.warmup);
  std::vector<float> rates;
  rates.reserve(static_cast<size_t>(num_steps) + 1);
  for (int64_t step = 0; step <= num_steps; ++step) {
    rates.push_back(static_cast<float>(peak * factor(schedule.type, step, warmup, num_steps, peak)));
  }
  return rates;
}

}  // namespace finetune
