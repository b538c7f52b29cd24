#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "finetune/checkpoint/named_tensor.h"
#include "finetune/checkpoint/safetensors.h"
#include "finetune/core/json.h"

namespace finetune {

/// Everything a run needs to go on as if it had never stopped.
struct Snapshot {
  int64_t step = 0;
  NamedTensors model;      ///< weights by Hugging Face name
  NamedTensors optimizer;  ///< "exp_avg/NAME", "exp_avg_sq/NAME", ...; small tensors too
  Json state;              ///< position, best metric, config, versions: whatever the training loop keeps
};

/// A committed checkpoint whose manifest, sizes and checksums have been verified.
struct VerifiedCheckpoint {
  int64_t step = 0;
  std::filesystem::path directory;
  Json state;
};

/// The folder RUN/checkpoints: commits snapshots so that no crash or loss of power can cost the last good one, and finds the
/// newest good one. See DESIGN's commit protocol in `store.cpp`.
class CheckpointStore {
 public:
  struct Retention {
    int64_t keep_last = 2;
    bool keep_best = true;
  };

  CheckpointStore(std::filesystem::path directory, Retention retention);

  /// Returns after the snapshot is durable. Idempotent a step. `is_best`: the link `best` moves to it.
  /// Throws `CheckpointError` (no space left, ...); what was committed before stays intact.
  void save(const Snapshot& snapshot, bool is_best);

  /// The highest step that verifies; damaged ones are named in a warning and passed over. Removes stale temporaries.
  std::optional<VerifiedCheckpoint> newest_valid();

  bool has_checkpoints() const;

 private:
  std::filesystem::path directory_;
  Retention retention_;
};

/// Verifies one checkpoint folder. Throws `CheckpointError` naming what is wrong with it.
VerifiedCheckpoint verify_checkpoint(const std::filesystem::path& directory);

/// Fills existing tensors from a verified checkpoint. Names, shapes and dtypes are compared for all of them before the first
/// byte is copied. Throws `CheckpointError` listing every missing, unexpected and mis-shaped name.
void restore_tensors(const VerifiedCheckpoint& checkpoint, const NamedTensors& model, const NamedTensors& optimizer);

}  // namespace finetune
