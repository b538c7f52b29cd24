#pragma once

#include "job.h"

namespace finetune::doctor {

/// Makes a few steps of the job on its device and looks at where everything is, where the time goes, and what
/// the slow ways would cost. available: bytes free on the device before the job was there.
Rehearsal rehearse(Job& job, const DeviceMeasures& measures, std::optional<int64_t> available);

}  // namespace finetune::doctor
