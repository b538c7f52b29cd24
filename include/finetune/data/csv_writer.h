#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// Appends one record, ended by LF, to `out`: fields are quoted where reading them back would otherwise give
/// something else. `DelimitedParser` with the same delimiter (and Python's `csv`, and pandas) reads the same
/// fields.
void append_csv_record(std::string& out, const std::vector<std::string_view>& fields, char delimiter = ',');

}  // namespace finetune
