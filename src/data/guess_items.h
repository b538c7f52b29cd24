#pragma once

#include <optional>
#include <string>

#include "finetune/data/table_profile.h"

namespace finetune {

/// Columns of rows whose words, fields or places have a label each.
struct ItemGuess {
  ColumnName text{"text", {}};
  std::optional<ColumnName> tokens, fields, positions;
  ColumnName label;
  std::string reason;  ///< goes on from "because"
  std::string doubt;   ///< empty: none
};

/// Two columns of lists that have the same length in every row, the one of few different labels. Nothing
/// where there are none.
std::optional<ItemGuess> guess_items(const TableProfile& table);

}  // namespace finetune
