#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "finetune/config/run_config.h"
#include "finetune/core/json.h"
#include "finetune/data/row_reader.h"

namespace finetune::cli {

/// Flags of the commands that read a data file: where in it they find what.
struct DataFlags {
  std::string text, text_pair, label, format, encoding;
  std::optional<int64_t> max_length;
};

void add_data_flags(CLI::App& command, DataFlags& flags);

/// Flags of the commands that run a trained model over a file: which model, on what, and how to read rows
/// where the model directory does not say, or says otherwise.
struct ModelInputFlags : DataFlags {
  std::filesystem::path model;
  std::string device = "auto";
  int64_t threads = 0;
};

void add_model_input_flags(CLI::App& command, ModelInputFlags& flags);

/// A column by name, or by number from 0.
ColumnName column_of(const std::string& text);

/// How a line of output begins: the row's texts. Items are part of its answer.
Json row_json(const Row& row);

/// `data` (what the model or a config says) with the flags that were given.
DataConfig with_flags(DataConfig data, const DataFlags& flags);

}  // namespace finetune::cli
