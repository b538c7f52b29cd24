#pragma once

#include <string>

#include "finetune/core/error.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// Throws `DataError` for the first row that has more tokens than the model has positions, as rows can where
/// truncation is off.
inline void refuse_long_rows(const TextDataset& rows, const EncodedDataset& encoded, int64_t max_positions) {
  for (int64_t row = 0; row < encoded.num_rows(); ++row) {
    if (encoded.length(row) <= max_positions) continue;
    throw DataError(rows.place(row) + ": the row has " + std::to_string(encoded.length(row)) +
                    " tokens, the model takes at most " + std::to_string(max_positions) +
                    "; shorten it, or let data.truncation cut it (longest_first)");
  }
}

}  // namespace finetune
