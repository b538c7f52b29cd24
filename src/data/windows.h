#pragma once

#include <vector>

#include "finetune/data/encoded_dataset.h"

namespace finetune {

/// Appends a row that is longer than `options.max_length` as windows of at most that many tokens: each has
/// the special tokens, and of a pair the whole of the text that `options.truncation` does not cut; neighbours
/// share `options.stride` tokens of the one that it cuts. As transformers' fast tokenizers with
/// `return_overflowing_tokens`. Throws `ConfigError`, of a pair `DataError`, where a window has no room for
/// more than it shares.
void append_windows(std::string_view text, std::optional<std::string_view> pair, const Tokenizer& tokenizer,
                    const RowOptions& options, std::vector<int32_t>& ids, std::vector<RowShape>& shapes);

}  // namespace finetune
