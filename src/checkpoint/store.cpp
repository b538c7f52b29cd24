#include "finetune/checkpoint/store.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "durable.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "manifest.h"
#include "safetensors_writer.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

constexpr char kStepPrefix[] = "step-";
constexpr char kAsideMark[] = ".aside-";
constexpr char kLatestLink[] = "latest";
constexpr char kBestLink[] = "best";

std::string step_name(int64_t step) {
  char name[40];
  std::snprintf(name, sizeof(name), "%s%08lld", kStepPrefix, static_cast<long long>(step));
  return name;
}

/// A folder of a step: the checkpoint itself, or one that was moved aside.
struct StepFolder {
  int64_t step = 0;
  fs::path path;
  bool aside = false;
};

std::optional<StepFolder> as_step_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const char* digits = name.data() + sizeof(kStepPrefix) - 1;
  StepFolder folder{0, path, false};
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), folder.step);
  const std::string expected = step_name(folder.step);
  if (error != std::errc() || folder.step < 0 || !name.starts_with(expected)) return std::nullopt;
  folder.aside = name.substr(expected.size()).starts_with(kAsideMark);
  if (!folder.aside && name != expected) return std::nullopt;
  return folder;
}

/// Highest step first.
std::vector<StepFolder> step_folders(const fs::path& directory) {
  std::vector<StepFolder> folders;
  if (!fs::is_directory(directory)) return folders;
  for (const auto& item : fs::directory_iterator(directory)) {
    if (!item.is_directory() || item.is_symlink()) continue;
    if (auto folder = as_step_folder(item.path())) folders.push_back(std::move(*folder));
  }
  std::sort(folders.begin(), folders.end(), [](const StepFolder& left, const StepFolder& right) {
    return left.step != right.step ? left.step > right.step : left.path < right.path;
  });
  return folders;
}

/// The folder that a link in `directory` names, or nothing.
fs::path link_target(const fs::path& directory, const char* link) {
  std::error_code error;
  return fs::read_symlink(directory / link, error).filename();
}

/// Moves the link in one step: a reader finds the old target or the new one. False where it is there already.
bool move_link(const fs::path& directory, const char* link, const fs::path& target) {
  if (link_target(directory, link) == target.filename()) return false;
  const fs::path temporary =
      directory / (kTemporaryPrefix + std::string(link) + "-" + std::to_string(::getpid()));
  fs::remove(temporary);
  fs::create_directory_symlink(target.filename(), temporary);
  try {
    fs::rename(temporary, directory / link);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  return true;
}

fs::path free_aside_name(const fs::path& target) {
  for (int number = 0;; ++number) {
    fs::path candidate = target.string() + kAsideMark + std::to_string(number);
    if (!fs::exists(fs::symlink_status(candidate))) return candidate;
  }
}

/// Everything but the tensors' bytes, made before the first file is created.
struct PlannedCheckpoint {
  SafetensorsPlan model;
  SafetensorsPlan optimizer;
  std::string state;

  explicit PlannedCheckpoint(const Snapshot& snapshot)
      : model(plan_safetensors(snapshot.model, metadata(snapshot))),
        optimizer(plan_safetensors(snapshot.optimizer, metadata(snapshot))),
        state(snapshot.state.dump(2) + "\n") {}

  size_t size() const { return model.size + optimizer.size + state.size(); }

  static std::map<std::string, std::string> metadata(const Snapshot& snapshot) {
    return {{"format", "pt"}, {"step", std::to_string(snapshot.step)}};
  }
};

}  // namespace

CheckpointStore::CheckpointStore(fs::path directory, Retention retention)
    : directory_(std::move(directory)), retention_(retention) {}

// The protocol. Each line is durable before the next begins, so that whatever instant the machine stops at,
// the folder holds the previous checkpoint, the new one, or both:
//   write the files into a temporary folder, each fsynced; MANIFEST last; fsync the folder
//   move a folder of the same name aside; rename the temporary folder; fsync the parent
//   move the links by rename; fsync the parent
//   delete what retention drops
void CheckpointStore::save(const Snapshot& snapshot, bool is_best) {
  const fs::path target = directory_ / step_name(snapshot.step);
  std::error_code unreadable;
  if (durable_step_ != snapshot.step || !fs::exists(target / kManifestFile, unreadable)) {
    commit(snapshot, is_best, target);
  }
  try {
    move_links(target, is_best);
  } catch (const std::system_error& error) {
    throw CheckpointError("checkpoint " + target.string() +
                          " is saved, but the links to it are not: " + error.what());
  }
  drop_old(snapshot.step);
}

void CheckpointStore::commit(const Snapshot& snapshot, bool is_best, const fs::path& target) {
  const PlannedCheckpoint plan(snapshot);
  fs::path aside;
  try {
    create_directories_durably(directory_);
    TemporaryDirectory temporary(directory_, step_name(snapshot.step));
    Manifest manifest{snapshot.step, is_best, {}};
    manifest.files[kModelFile] = write_planned(temporary.path() / kModelFile, plan.model);
    manifest.files[kOptimizerFile] = write_planned(temporary.path() / kOptimizerFile, plan.optimizer);
    manifest.files[kStateFile] = write_text(temporary.path() / kStateFile, plan.state);
    write_text(temporary.path() / kManifestFile, manifest_text(manifest));
    sync_directory(temporary.path());

    if (fs::exists(fs::symlink_status(target))) {
      aside = free_aside_name(target);
      fs::rename(target, aside);
    }
    fs::rename(temporary.path(), target);
    temporary.release();
    sync_directory(directory_);
  } catch (const std::system_error& error) {
    std::error_code ignored;
    if (!aside.empty() && !fs::exists(target, ignored)) fs::rename(aside, target, ignored);
    throw CheckpointError(
        "cannot save checkpoint " + target.string() + ": " +
        describe_write_failure(error, directory_, plan.size()) +
        "; the checkpoints before it are intact; free some space and go on with --resume auto");
  }
  durable_step_ = snapshot.step;
  damaged_steps_.erase(snapshot.step);
}

void CheckpointStore::move_links(const fs::path& target, bool is_best) {
  bool moved = move_link(directory_, kLatestLink, target);
  if (is_best && retention_.keep_best) moved |= move_link(directory_, kBestLink, target);
  if (moved) sync_directory(directory_);
}

void CheckpointStore::drop_old(int64_t newest_step) {
  try {
    const int64_t keep_last = std::max<int64_t>(retention_.keep_last, 1);
    const fs::path best = link_target(directory_, kBestLink);
    int64_t num_good = 0;
    for (const auto& folder : step_folders(directory_)) {
      // Above the newest step lies only what a resume passed over.
      if (!folder.aside && folder.step > newest_step) continue;
      if (!folder.aside && num_good < keep_last) {
        const bool good = !damaged_steps_.contains(folder.step) && fs::exists(folder.path / kManifestFile);
        num_good += good ? 1 : 0;
        continue;
      }
      if (folder.path.filename() == best) continue;
      // Renamed first: a crash while it is being deleted leaves no folder that looks like a damaged
      // checkpoint.
      const TemporaryDirectory dropped(directory_, "dropped-" + folder.path.filename().string());
      fs::rename(folder.path, dropped.path() / "checkpoint");
    }
  } catch (const std::system_error& error) {
    spdlog::warn("cannot remove old checkpoints in {}: {}", directory_.string(), error.what());
  }
}

std::optional<VerifiedCheckpoint> CheckpointStore::newest_valid() {
  if (!fs::is_directory(directory_)) return std::nullopt;
  remove_stale_temporaries(directory_, "");
  for (const auto& folder : step_folders(directory_)) {
    if (folder.aside) continue;
    try {
      VerifiedCheckpoint checkpoint = verify_checkpoint(folder.path);
      if (checkpoint.step != folder.step) {
        throw CheckpointError("its manifest is of step " + std::to_string(checkpoint.step));
      }
      durable_step_ = checkpoint.step;
      try {
        move_links(folder.path, read_manifest(folder.path).is_best);
      } catch (const std::system_error& error) {
        spdlog::warn("cannot move the links in {}: {}", directory_.string(), error.what());
      }
      return checkpoint;
    } catch (const CheckpointError& error) {
      damaged_steps_.insert(folder.step);
      spdlog::warn("checkpoint {} is damaged, the one before it is looked at instead: {}",
                   folder.path.string(), error.what());
    }
  }
  return std::nullopt;
}

bool CheckpointStore::has_checkpoints() const {
  const auto folders = step_folders(directory_);
  return std::any_of(folders.begin(), folders.end(), [](const StepFolder& folder) { return !folder.aside; });
}

}  // namespace finetune
