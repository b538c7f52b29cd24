#include "truncation.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "finetune/core/error.h"

namespace finetune {
namespace {

/// Only the longer text is cut while it is the longer; then both to half, the odd token to the text that was
/// longer (the second where they were equal).
KeptTokens cut_longest_first(int64_t first, int64_t second, int64_t budget) {
  const bool swapped = first > second;
  int64_t shorter = std::min(first, second);
  int64_t longer = shorter > budget ? shorter : std::max(shorter, budget - shorter);
  if (shorter + longer > budget) {
    shorter = budget / 2;
    longer = shorter + budget % 2;
  }
  return swapped ? KeptTokens{longer, shorter} : KeptTokens{shorter, longer};
}

int64_t cut_one(int64_t length, int64_t excess, const char* strategy, const char* which) {
  if (length > excess) return length - excess;
  throw DataError(std::string("truncation '") + strategy + "' cannot shorten this row: " +
                  std::to_string(excess) + " tokens are too many, and the " + which + " text has only " +
                  std::to_string(length) + "; use 'longest_first' or a larger max_length");
}

}  // namespace

KeptTokens truncate_to(int64_t first, std::optional<int64_t> second, int64_t budget,
                       TruncationStrategy strategy) {
  const int64_t excess = first + second.value_or(0) - budget;
  if (strategy == TruncationStrategy::kNone || excess <= 0) return {first, second.value_or(0)};
  if (budget <= 0) return {0, 0};
  switch (strategy) {
    case TruncationStrategy::kOnlyFirst:
      return {cut_one(first, excess, "only_first", "first"), second.value_or(0)};
    case TruncationStrategy::kOnlySecond:
      if (!second) {
        throw DataError("truncation 'only_second' cannot shorten this row of " + std::to_string(first) +
                        " tokens: it has no second text; use 'longest_first' or a larger max_length");
      }
      return {first, cut_one(*second, excess, "only_second", "second")};
    default:
      return second ? cut_longest_first(first, *second, budget) : KeptTokens{budget, 0};
  }
}

int64_t read_limit(const EncodeOptions& options, bool pair) {
  const bool cuts_first = options.truncation == TruncationStrategy::kLongestFirst ||
                          options.truncation == TruncationStrategy::kOnlyFirst;
  return cuts_first && !pair ? options.max_length : std::numeric_limits<int64_t>::max();
}

}  // namespace finetune
