#pragma once

#include <compare>
#include <cstdint>

#include "finetune/batching/batch.h"

namespace finetune {

/// What the work on a batch depends on besides its values.
struct BatchShape {
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  int64_t max_length = 0;
  int64_t num_positions = 0;  ///< 0: the rows are what is predicted for

  auto operator<=>(const BatchShape&) const = default;
};

/// The shape to which a batch is filled up, so that few shapes cover all: tokens to the next of about eight
/// steps between powers of two, the longest row to the next multiple of 16 (of 64 from 128 on).
/// most_rows: of any batch.
BatchShape bucket_of(const Batch& batch, int64_t most_rows);

/// A batch whose tensors stay where they are, for work that is recorded once and repeated. What a batch
/// leaves free is filled by rows of the same length that nothing learns from: their labels are ignored.
class StaticBatch {
 public:
  /// Allocates on `device`. ignore_index: the label of what is to be ignored.
  StaticBatch(const BatchShape& shape, int64_t ignore_index, c10::Device device);

  /// Copies a batch in, on the device. `batch` must have been given this shape by `bucket_of`. Does not wait.
  void load(const Batch& batch);

  const Batch& batch() const { return batch_; }

 private:
  BatchShape shape_;
  int64_t ignore_index_;
  Batch batch_;
};

}  // namespace finetune
