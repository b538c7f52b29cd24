#pragma once

#include <cstddef>
#include <string_view>

namespace finetune {

/// The end of the extended grapheme cluster that begins at `begin` < `text.size()` (Unicode Standard Annex
/// 29, by the reference's tables; regional indicators are not paired, which no caller can tell).
size_t grapheme_end(std::string_view text, size_t begin);

}  // namespace finetune
