#pragma once

/// Work that is recorded and repeated, as CUDA graphs are. While one is being recorded operators run as
/// usual, so that shapes and addresses come about, and every byte they change of memory that was there before
/// is put back at the end: nothing seems to have run. A repetition runs the same operators on the same
/// addresses, with the numbers that the host gave them then.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "finetune/device/device.h"
#include "state.h"

namespace finetune::sim {

/// Records what `work` launches, on whichever thread.
std::unique_ptr<RecordedWork> record(const std::function<void()>& work);

bool recording();

/// The same tensor without what autograd hangs on it, which would live as long as the recording.
at::Tensor unattached(const at::Tensor& tensor);

/// Notes a launch that has just been made: what makes it again.
void note_launch(std::function<void()> again);

/// Keeps what `block` holds until the recording ends. Call before a launch that writes to it.
void keep_contents(Block& block);

/// Throws while something is recorded: `what` cannot be part of it.
void refuse_while_recording(const char* what);

/// How many recordings were made and repeated since the last call.
struct RecordingCounts {
  int64_t made = 0, replayed = 0;
};
RecordingCounts take_recording_counts();

}  // namespace finetune::sim
