#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "finetune/batching/batch.h"

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

class EpochPlans;
struct EpochPlan;
class Prefetcher;

/// Deals the rows of a training set to updates. Stateless but for caches: the batch of a step is a function
/// of the step, so a resumed run needs only the number.
///
/// Rows of a dataset that lies on the device are packed there. Rows of one that lies on the host are
/// *streamed*: worker threads collect them in pinned memory, a few batches ahead, and a stream of its own
/// copies them; the batches are the same.
class Batcher {
 public:
  struct Options {
    int64_t batch_size = 32;         ///< rows an update
    int64_t micro_batch_rows = 0;    ///< rows a forward pass; 0: only the token budget counts
    int64_t micro_batch_tokens = 0;  ///< tokens a forward pass; 0: only the rows count
    bool drop_last = false;
    bool shuffle = true;
    uint64_t seed = 0;
    c10::Device device = c10::kCPU;  ///< where batches are wanted
    std::optional<int64_t> num_workers =
        std::nullopt;  ///< threads that collect rows; unset: as many as keep up
  };

  /// label_weights [R]: what each row's labels weigh in the loss (see Task::label_weights). `dataset` must
  /// outlive the batcher. Throws `DataError` where not one update can be made (fewer rows than a batch with
  /// `drop_last`).
  Batcher(DeviceDataset& dataset, std::vector<double> label_weights, const Options& options);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// The batch of update `step`, counted from 0 over all epochs. Windows never span epochs; the last one of
  /// an epoch may be short. Does not wait for the device, but for the workers where rows are streamed.
  StepBatch at(int64_t step);

  /// Whether rows come from the host.
  bool streamed() const;
  /// Moves the dataset to the device, so that no row is streamed any more.
  void make_resident();

  /// Tokens a forward pass, as `Options::micro_batch_tokens`. Changes how updates are cut, not what is in
  /// them.
  void set_micro_batch_tokens(int64_t tokens);
  int64_t micro_batch_tokens() const { return options_.micro_batch_tokens; }
  /// The most rows of a forward pass.
  int64_t micro_batch_rows() const;
  /// Cuts updates finer: to half the tokens of the largest micro-batch of update `step`. False where each of
  /// that update's rows goes alone already.
  bool halve_micro_batches(int64_t step);

 private:
  void enter_epoch(int64_t epoch);
  Batch micro_batch(int64_t index);
  void forget_plans();

  DeviceDataset* dataset_;
  std::vector<double> label_weights_;
  Options options_;
  bool warned_of_no_labels_ = false;
  int64_t steps_per_epoch_ = 0;
  int64_t epoch_ = -1;
  std::shared_ptr<EpochPlans> plans_;
  std::shared_ptr<const EpochPlan> plan_;   ///< of the current epoch
  std::unique_ptr<BatchSource> source_;     ///< of the current epoch, where the dataset is resident
  std::unique_ptr<Prefetcher> prefetcher_;  ///< where it is streamed
};

}  // namespace finetune
