#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "finetune/batching/batch.h"
#include "finetune/config/run_config.h"

namespace finetune {

/// The micro-batches of one update.
struct StepBatch {
  std::vector<Batch> micro_batches;
  std::vector<int64_t> rows;  ///< row numbers, on the host
  int64_t num_tokens = 0;
  double label_weight = 0;  ///< sum of the labels' weights: what the summed loss is divided by
};

/// The row order of an epoch: a permutation that depends on nothing but seed and epoch (file order without
/// `shuffle`).
std::vector<int64_t> epoch_order(int64_t num_rows, uint64_t seed, int64_t epoch, bool shuffle);

/// Deals the rows of a training set to updates. Stateless but for a cache of the current epoch: the batch of
/// a step is a function of the step, so a resumed run needs only the number.
class Batcher {
 public:
  struct Options {
    int64_t batch_size = 32;         ///< rows an update
    int64_t micro_batch_rows = 0;    ///< rows a forward pass; 0: only the token budget counts
    int64_t micro_batch_tokens = 0;  ///< tokens a forward pass; 0: only the rows count
    bool drop_last = false;
    bool shuffle = true;
    uint64_t seed = 0;
  };

  /// label_weights [R]: what each row's labels weigh in the loss (see Task::label_weights). `dataset` must
  /// outlive the batcher. Throws `DataError` where not one update can be made (fewer rows than a batch with
  /// `drop_last`).
  Batcher(const DeviceDataset& dataset, std::vector<double> label_weights, const Options& options);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// The batch of update `step`, counted from 0 over all epochs. Windows never span epochs; the last one of
  /// an epoch may be short.
  StepBatch at(int64_t step);

 private:
  void enter_epoch(int64_t epoch);

  const DeviceDataset* dataset_;
  std::vector<double> label_weights_;
  Options options_;
  int64_t steps_per_epoch_ = 0;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
  std::vector<int64_t> first_plan_;  ///< [steps + 1] index of each step's first micro-batch in `source_`
  std::unique_ptr<BatchSource> source_;
};

}  // namespace finetune
