#include "byte_pieces.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace finetune {

std::vector<int32_t> byte_piece_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name;
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte & 0xFF);
    ids.push_back(vocabulary.id(name.data()).value_or(-1));
  }
  return ids;
}

bool has_byte_pieces(const std::vector<int32_t>& ids, std::string_view text) {
  return !ids.empty() && std::all_of(text.begin(), text.end(),
                                     [&](char byte) { return ids[static_cast<uint8_t>(byte)] >= 0; });
}

}  // namespace finetune
