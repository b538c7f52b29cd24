#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "finetune/config/run_config.h"
#include "finetune/data/table_profile.h"

namespace finetune {

/// What its user knows of a data file already.
struct GuessHints {
  std::optional<ColumnName> text, text_pair, label;
  std::optional<TaskType> task;
};

/// What a data file is for: a task, and where in the file it finds what it needs.
struct Guess {
  TaskType task = TaskType::kSequenceClassification;
  DataConfig data;                   ///< format, delimiter, header and columns; the rest has its defaults
  std::vector<std::string> reasons;  ///< each guess and what it rests on, a line each
  std::vector<std::string> doubts;   ///< where it could be otherwise, with the key to set, a line each
  /// The classes and how often each occurs, the most frequent first; of tags, with their prefixes.
  std::vector<std::pair<std::string, int64_t>> labels;
  bool has_all_labels = true;  ///< false: there are more classes than were counted
};

/// Guesses by the columns' names and values. Throws `DataError` where the file has no column that could be a
/// text, or none that could be a label, with what was seen and the flags that say it.
Guess guess_data(const TableProfile& table, const GuessHints& hints);

}  // namespace finetune
