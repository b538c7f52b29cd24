#pragma once

#include <cstdint>
#include <optional>

#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// Tokens of each text that stay.
struct KeptTokens {
  int64_t first = 0;
  int64_t second = 0;
};

/// How a row of `first` (and `second`) tokens is cut to `budget` tokens, special tokens not counted; the rule
/// of the reference's `truncate_encodings`. Throws `DataError` where the strategy cannot reach the budget.
KeptTokens truncate_to(int64_t first, std::optional<int64_t> second, int64_t budget,
                       TruncationStrategy strategy);

/// Tokens after which the rest of a text need not be read, because it is cut off: those of a text without a
/// second one, whose length decides nothing.
int64_t read_limit(const EncodeOptions& options, bool pair);

}  // namespace finetune
