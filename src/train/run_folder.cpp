#include "run_folder.h"

#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/report/event_file.h"

namespace finetune {
namespace {

/// What a run writes; `--overwrite` deletes these and nothing else.
constexpr const char* kContents[] = {"checkpoints",  "model",       "metrics.jsonl", "summary.json",
                                     "details.json", "config.json", "report.html"};

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto relative =
      std::filesystem::weakly_canonical(path).lexically_relative(std::filesystem::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

RunFolder::RunFolder(const RunConfig& config, const RunOptions& options) : path_(config.output_dir) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    throw ConfigError("output_dir " + path_.string() + " cannot be created: " + error.message() +
                      "; choose a folder that can be written");
  }
  lock_ = std::make_unique<FileLock>(path_ / ".lock");
  store_ = std::make_unique<CheckpointStore>(
      path_ / "checkpoints", CheckpointStore::Retention{.keep_last = config.checkpoint.keep_last,
                                                        .keep_best = config.checkpoint.keep_best});
  const bool from_named_checkpoint = options.resume != "auto" && options.resume != "never";
  if (options.overwrite && from_named_checkpoint && lies_in(options.resume, path_)) {
    throw ConfigError("--overwrite would delete " + options.resume +
                      ", which the run is to start from; go on with the "
                      "run by --resume auto, or choose another output_dir");
  }
  takes_a_place_ = options.overwrite;

  if (options.resume == "auto") {
    resume_point_ = store_->newest_valid();
    owns_resume_point_ = resume_point_.has_value();
    if (!resume_point_) {
      if (store_->has_checkpoints()) {
        throw CheckpointError(path_.string() +
                              ": no checkpoint in it is whole, so there is nothing to resume from; "
                              "start anew with --overwrite");
      }
      takes_a_place_ = true;
    }
    return;
  }
  if (options.resume == "never") {
    if (holds_a_run(path_) && !takes_a_place_) {
      throw ConfigError(path_.string() +
                        " already holds a run; go on with it by --resume auto, delete it by --overwrite, "
                        "or choose another output_dir");
    }
    return;
  }
  if (holds_a_run(path_) && !takes_a_place_) {
    throw ConfigError(path_.string() + " already holds a run; a run that starts from the checkpoint " +
                      options.resume + " needs a fresh output_dir, or --overwrite");
  }
  if (std::filesystem::is_regular_file(options.resume)) {
    python_checkpoint_ = read_python_checkpoint(options.resume);
  } else {
    resume_point_ = verify_checkpoint(options.resume);
  }
}

void RunFolder::begin() {
  if (std::exchange(takes_a_place_, false)) clear();
}

bool holds_a_run(const std::filesystem::path& folder) {
  return CheckpointStore(folder / "checkpoints", {}).has_checkpoints() ||
         std::filesystem::exists(folder / "summary.json") || std::filesystem::exists(folder / "model");
}

void RunFolder::clear() const {
  for (const char* name : kContents) std::filesystem::remove_all(path_ / name);
  remove_event_files(path_);
}

}  // namespace finetune
