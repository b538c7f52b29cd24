#pragma once

#include <filesystem>

#include "finetune/config/run_config.h"

namespace finetune {

/// Throws `DataError` where there is no such file or folder: what is there, and the nearest name. `-` is the
/// standard input.
void require_file(const std::filesystem::path& path);

/// The format that a data file is read in: `data.format`, else by its name; never kAuto. Throws `DataError`
/// where there is no file, where it is a folder and should be none, where the name tells nothing, and for
/// formats of other programs, with the command that converts them.
DataFormat data_file_format(const std::filesystem::path& path, const DataConfig& config);

}  // namespace finetune
