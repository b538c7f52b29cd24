#pragma once

#include <string_view>

namespace finetune {

/// Whether data sets usually call a column of texts (or, with `label`, of labels) so. Case and blanks do not
/// matter.
bool is_usual_name(std::string_view field, bool label);

/// The same of a column of row numbers, which is neither.
bool is_usual_id_name(std::string_view field);

}  // namespace finetune
