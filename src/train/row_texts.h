#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "finetune/config/run_config.h"
#include "finetune/data/row_reader.h"

namespace finetune {

struct FoundRow {
  Row row;
  std::filesystem::path file;
};

/// The rows of these numbers (from 0) of a split, as text, read from its files anew: after encoding nobody
/// keeps them. split: "validation" or "test"; name: of the file where there are several (see Inputs).
/// What cannot be read again is missing.
std::map<int64_t, FoundRow> read_rows_again(const RunConfig& config, const std::string& split,
                                            const std::string& name, int64_t num_train, int64_t num_rows,
                                            const std::set<int64_t>& numbers);

}  // namespace finetune
