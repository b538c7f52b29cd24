#pragma once

#include <string>

#include "finetune/core/error.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"
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

/// Says how many words, fields or places have no token, so that nothing is learned from them.
inline void warn_of_lost_items(const std::string& name, int64_t num_lost, int64_t num_items) {
  if (num_lost == 0) return;
  spdlog::warn(
      "{}: {} of {} words, fields or positions have no token (cut off by data.max_length, or nothing that "
      "the "
      "tokenizer knows); they are not trained on, and answered O or null",
      name, with_thousands(num_lost), with_thousands(num_items));
}

}  // namespace finetune
