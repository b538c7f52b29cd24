#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "vocabulary.h"

namespace finetune {

/// The ids of <0x00> to <0xFF>, -1 where the vocabulary has none.
std::vector<int32_t> byte_piece_ids(const Vocabulary& vocabulary);

/// Whether `ids`, which may be empty, holds a piece for each byte of `text`.
bool has_byte_pieces(const std::vector<int32_t>& ids, std::string_view text);

}  // namespace finetune
