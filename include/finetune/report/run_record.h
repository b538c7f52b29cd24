#pragma once

#include <filesystem>

#include "finetune/core/json.h"

namespace finetune {

/// What a run's folder records of it, as report.html embeds it:
///
///     name, folder       the folder's last part; its path
///     status             of summary.json, else "unfinished": still training, or killed
///     config, summary    config.json and summary.json, or null
///     details            details.json (see train/run_details.h), or null
///     start              the last `start` or `resume` event of metrics.jsonl, or null
///     resumes            the steps that it was resumed at
///     last_record        when metrics.jsonl was last written, UTC
///     train, epoch       {field: [value, ...]} of the events of that name; numbers only
///     eval               {split: {field: [value, ...]}}
///     problems           what could not be read, a sentence each
///
/// A long log is thinned to `kMostPoints` points, each the mean of those it stands for. Values that are no
/// finite number are null. Files that are missing or damaged are named in `problems`; the last line of a log
/// may be cut off.
/// Throws `ConfigError` where the folder is no run's: it has neither a log nor a summary nor a run's config.
Json read_run_record(const std::filesystem::path& folder);

/// Points of a series of `train` events at most.
inline constexpr size_t kMostPoints = 1500;

}  // namespace finetune
