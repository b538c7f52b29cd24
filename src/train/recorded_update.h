#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "finetune/batching/static_batch.h"
#include "finetune/device/device.h"
#include "finetune/train/update.h"

namespace finetune {

/// Runs the pieces of an update, by recordings where that is wanted and the device can: one launch instead of
/// hundreds for the forward and backward pass of a micro-batch of known shape, and one for the optimizer.
///
/// A shape is recorded when it comes for the second time, so that what libraries do at their first call is
/// over. Batches are filled up to few shapes (see `StaticBatch`), which changes no more than the order of
/// sums. Where recording fails the run goes on without, and says why.
class RecordedUpdate {
 public:
  /// `update` must outlive it. ignore_index: the label that counts for nothing.
  RecordedUpdate(Update& update, const OpenDevice& device, bool wanted, int64_t ignore_index);

  /// Forward and backward pass. most_rows: of any micro-batch.
  void accumulate(const Batch& batch, int64_t most_rows);
  void apply();

  /// Forgets all recordings, since what they repeat is no longer what is to be done.
  void forget();

  /// Gives all recordings up, for their memory.
  void stop(const std::string& reason);

 private:
  struct Pass {
    StaticBatch inputs;
    std::unique_ptr<RecordedWork> work;
  };
  void repeat(Pass& pass, const Batch& batch);
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work);

  Update& update_;
  const OpenDevice& device_;
  bool on_;
  int64_t ignore_index_;
  std::map<BatchShape, Pass> passes_;
  bool applied_ = false;  ///< once, not from a recording
  std::unique_ptr<RecordedWork> apply_;
};

}  // namespace finetune
