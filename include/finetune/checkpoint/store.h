#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>

#include "finetune/checkpoint/named_tensor.h"
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

/// The folder RUN/checkpoints: commits snapshots so that no crash or loss of power can cost the last good
/// one, and finds the newest good one. The holder of the run lock alone may use it. See the commit protocol
/// in `store.cpp`.
class CheckpointStore {
 public:
  struct Retention {
    int64_t keep_last = 2;  ///< good checkpoints to keep, the newest first; at least one is kept
    bool keep_best = true;  ///< whether `best` is moved; what it names is never deleted
  };

  CheckpointStore(std::filesystem::path directory, Retention retention);

  /// Returns after the snapshot is durable. Idempotent a step: where this store saved, or `newest_valid`
  /// found, the same step, only the links move. `is_best`: the link `best` moves to it. Reads the tensors
  /// back to the host. Throws `CheckpointError` (no space left: path, bytes needed, bytes free; ...); what
  /// was committed before stays intact.
  void save(const Snapshot& snapshot, bool is_best);

  /// The highest step that verifies; damaged ones are named in a warning and passed over. Removes stale
  /// temporaries, and mends the links where a crash came between a commit and its links.
  std::optional<VerifiedCheckpoint> newest_valid();

  /// Whether there is any folder step-*, good or damaged.
  bool has_checkpoints() const;

 private:
  void commit(const Snapshot& snapshot, bool is_best, const std::filesystem::path& target);
  void move_links(const std::filesystem::path& target, bool is_best);
  void drop_old(int64_t newest_step);

  std::filesystem::path directory_;
  Retention retention_;
  std::optional<int64_t> durable_step_;  ///< the step that is known to be good on disk
  std::set<int64_t> damaged_steps_;      ///< passed over by `newest_valid`
};

/// Verifies one checkpoint folder: manifest, sizes, checksums. Throws `CheckpointError` naming what is wrong
/// with it.
VerifiedCheckpoint verify_checkpoint(const std::filesystem::path& directory);

/// Fills existing tensors from a verified checkpoint. Names, shapes and dtypes are compared for all of them
/// before the first byte is copied. Throws `CheckpointError` listing every missing, unexpected and mis-shaped
/// name.
void restore_tensors(const VerifiedCheckpoint& checkpoint, const NamedTensors& model,
                     const NamedTensors& optimizer);

}  // namespace finetune
