#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace finetune {

/// The end of the word that begins at `begin` < `text.size()`, by the expression of GPT-2's tokenizer:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+
size_t byte_level_word_end(std::string_view text, size_t begin);

/// The visible character that stands for a byte in byte-level vocabularies (GPT-2's `bytes_to_unicode`), as
/// UTF-8 of one or two bytes.
std::string_view byte_level_character(uint8_t byte);

}  // namespace finetune
