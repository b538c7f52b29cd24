#pragma once

#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// Options that cut nothing off.
EncodeOptions without_limit();

/// Appends the ids of a row whose items have labels, and of each item the position of its token in the row: a
/// word's first token, the mark before a field, the token at a place. -1: a word that gives no token, or what
/// was cut off. Fields stay whole: the text before them is cut first, then fields are left out from the end.
/// Throws `DataError` for a place outside the text.
RowShape append_items(const TextDataset& rows, size_t row, const Tokenizer& tokenizer,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<int32_t>& positions);

}  // namespace finetune
