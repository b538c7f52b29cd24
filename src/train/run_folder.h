#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/checkpoint/store.h"
#include "finetune/core/file.h"
#include "finetune/train/run.h"

namespace finetune {

/// RUN: locked for as long as the object lives, and either fresh or about to be resumed.
class RunFolder {
 public:
  /// Creates and locks the folder, then applies the resume rules. Throws `ConfigError` where it is in use, or
  /// holds a run and neither a resume nor an overwrite was asked for; `CheckpointError` where a named
  /// checkpoint is damaged.
  RunFolder(const RunConfig& config, const RunOptions& options);

  /// Deletes what an earlier run left, where this one is to take its place. Called when nothing that the
  /// config names can fail any more: a slip of the pen costs no results.
  void begin();

  const std::filesystem::path& path() const { return path_; }
  CheckpointStore& store() { return *store_; }

  /// Where the run goes on from; empty for a fresh start.
  const std::optional<VerifiedCheckpoint>& resume_point() const { return resume_point_; }

  /// The .pth of a Python script that the run goes on from; null where there is none.
  const PythonCheckpoint* python_checkpoint() const {
    return python_checkpoint_ ? &*python_checkpoint_ : nullptr;
  }

  /// Lets go of the .pth, whose file is mapped.
  void close_python_checkpoint() { python_checkpoint_.reset(); }

  /// Whether the resume point is this run's own, not a checkpoint of another run.
  bool owns_resume_point() const { return owns_resume_point_; }

 private:
  void clear() const;

  std::filesystem::path path_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<CheckpointStore> store_;
  std::optional<VerifiedCheckpoint> resume_point_;
  std::optional<PythonCheckpoint> python_checkpoint_;
  bool owns_resume_point_ = false;
  bool takes_a_place_ = false;  ///< of what an earlier run left
};

/// Whether a folder holds a run: checkpoints or results.
bool holds_a_run(const std::filesystem::path& folder);

}  // namespace finetune
