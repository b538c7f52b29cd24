#pragma once

#include <cstdint>
#include <vector>

#include "finetune/config/run_config.h"

namespace finetune {

/// The learning rate of each of `num_steps` updates: update k (from 0) uses entry k. One entry more, for a
/// count that has run past the end. Warm-up is linear from 0 and the rules are those of transformers'
/// `get_scheduler`.
std::vector<float> learning_rates(const ScheduleConfig& schedule, double peak, int64_t num_steps);

}  // namespace finetune
