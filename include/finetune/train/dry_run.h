#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/train/memory_plan.h"
#include "finetune/train/run.h"

namespace finetune {

/// What a run would do, and what it would cost by what a few of its steps did.
struct DryRun {
  std::string device, precision;
  int64_t num_labels = 0;
  Json data;  ///< rows, tokens and truncated rows of each split
  int64_t num_steps = 0, steps_per_epoch = 0, batch_size = 0;
  double epochs = 0;
  MemoryPlan plan;
  std::optional<int64_t> available;  ///< bytes of memory that are free
  int64_t peak_bytes = 0;            ///< that the steps needed

  double loss = 0;  ///< of the first update
  double seconds_a_step = 0, tokens_a_second = 0;
  double train_seconds = 0;
  int64_t num_evaluations = 0;
  double evaluation_seconds = 0;  ///< of all
  int64_t num_saves = 0;
  double save_seconds = 0;  ///< of all
  int64_t checkpoint_bytes = 0, model_bytes = 0, disk_bytes = 0;
  std::optional<int64_t> disk_free;
  std::vector<std::string> problems;  ///< what would stop the run, or end it early

  double total_seconds() const { return train_seconds + evaluation_seconds + save_seconds; }
};

/// Does everything that a run does, once: reads and encodes all rows, a few updates of real batches, a batch
/// of an evaluation, a checkpoint and a model directory beside `output_dir`, which are verified and deleted.
/// `output_dir` itself is left alone. Waits for the device. Throws as `run`.
DryRun dry_run(const RunConfig& config, const RunOptions& options);

std::string to_text(const DryRun& report);

/// How training on one batch went.
struct OverfitReport {
  bool learned = false;
  double learning_rate = 0;  ///< the one that learned, or the last that was tried
  double configured_rate = 0;
  int64_t num_rows = 0, num_steps = 0;
  double first_loss = 0, last_loss = 0;
  int64_t conflicting_rows = 0;  ///< with the tokens of another row of the batch and another label
  bool one_label = false;        ///< all rows have the same: then little is shown
};

/// Trains on the first batch alone, without dropout and weight decay and at a constant learning rate, until
/// the loss is near zero: a job that is wired rightly can learn a batch by heart. Tries learning rates ten
/// and a hundred times higher before it gives up. Writes nothing. Waits for the device. Throws as `run`.
OverfitReport overfit_batch(const RunConfig& config);

std::string to_text(const OverfitReport& report);

}  // namespace finetune
