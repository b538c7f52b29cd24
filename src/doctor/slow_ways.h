#pragma once

#include <vector>

#include "job.h"

namespace finetune::doctor {

/// Measures the slow ways on the job's device. plain: a step of the job; comparison_rows: an
/// update of so many rows is short enough to be made several times. Waits for the device.
std::vector<SlowWay> measure_slow_ways(Job& job, const StepTimes& plain, int64_t comparison_rows,
                                       const DeviceMeasures& measures);

}  // namespace finetune::doctor
