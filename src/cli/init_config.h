#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "finetune/data/guess.h"
#include "finetune/data/inspection.h"
#include "model_choice.h"

namespace finetune::cli {

/// What a config is made from.
struct Job {
  std::filesystem::path data;        ///< as the user named it
  std::filesystem::path validation;  ///< empty: part of the training rows
  std::filesystem::path test;        ///< empty: none
  std::filesystem::path folder;      ///< of the config file: paths in it start there
  TableProfile table;
  Guess guess;
  ModelChoice model;
  SplitReport rows;  ///< of the training file
};

/// Files that lie beside `data` and are named like its validation and test rows: train.csv, dev.csv,
/// test.csv.
struct Siblings {
  std::filesystem::path validation, test;
};
Siblings find_siblings(const std::filesystem::path& data);

/// A config that runs as it is. Appends to `reasons` what was chosen, and why.
Json make_config(const Job& job, std::vector<std::string>& reasons);

}  // namespace finetune::cli
