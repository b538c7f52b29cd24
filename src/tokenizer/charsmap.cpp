#include "charsmap.h"

#include <algorithm>
#include <stdexcept>

#include "finetune/core/text.h"
#include "grapheme.h"

namespace finetune {
namespace {

uint32_t read_little_endian(std::string_view bytes, size_t position) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[position + i]);
  return value;
}

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

/// The change of the last characters tells that more, or fewer, took the place of `old_part`.
void append_replacement(std::string_view old_part, std::string_view new_part,
                        std::vector<TransformedCharacter>& characters) {
  size_t added = 0;
  for (size_t position = 0; position < new_part.size(); ++added) {
    const DecodedCodePoint decoded = decode_utf8(new_part, position);
    characters.push_back({decoded.code_point, 0});
    position += decoded.length;
  }
  const size_t removed = count_characters(old_part);
  for (size_t i = removed; i < added; ++i) characters[characters.size() - 1 - (i - removed)].change = 1;
  if (added < removed && !characters.empty()) {
    characters.back().change -= static_cast<int32_t>(removed - added);
  }
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.size() < 4)
    throw std::invalid_argument("a character map of " + std::to_string(bytes.size()) + " bytes");
  const size_t size = read_little_endian(bytes, 0);
  if (size > bytes.size() - 4 || size < 4) {
    throw std::invalid_argument("a character map whose trie of " + std::to_string(size) +
                                " bytes lies outside it");
  }
  trie_.reserve(size / 4);
  for (size_t i = 0; i < size / 4; ++i) trie_.push_back(read_little_endian(bytes, 4 + 4 * i));
  texts_.assign(bytes.substr(4 + 4 * (size / 4)));
  if (find_invalid_utf8(texts_) != std::string_view::npos) {
    throw std::invalid_argument("a character map whose texts are not UTF-8");
  }
  for (char c = 1; c > 0; ++c) replaced_[static_cast<size_t>(c)] = replacement({&c, 1}).has_value();
}

std::optional<std::string_view> Charsmap::replacement(std::string_view chunk) const {
  uint32_t node = offset_of(trie_[0]);
  for (const char c : chunk) {
    const auto byte = static_cast<uint8_t>(c);
    node ^= byte;
    if (byte == 0 || node >= trie_.size()) return std::nullopt;
    const uint32_t unit = trie_[node];
    if ((unit & (1u << 31 | 0xFF)) != byte) return std::nullopt;
    node ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const size_t begin = node < trie_.size() ? trie_[node] & ~(1u << 31) : texts_.size() + 1;
    if (begin > texts_.size()) return std::nullopt;
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

bool Charsmap::leaves_alone(std::string_view text) const {
  return std::none_of(text.begin(), text.end(), [&](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte >= 0x80 || replaced_[byte];
  });
}

void Charsmap::normalize(AlignedText& aligned) const {
  const std::string_view text = aligned.text;
  if (leaves_alone(text)) return;
  constexpr size_t kLongestWhole = 5;
  std::vector<TransformedCharacter> characters;
  characters.reserve(text.size());
  bool modified = false;
  const auto put = [&](std::string_view part) {
    const auto found = replacement(part);
    if (found) append_replacement(part, *found, characters);
    modified |= found.has_value();
    return found.has_value();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = grapheme_end(text, begin);
    if (end - begin <= kLongestWhole && put(text.substr(begin, end - begin))) {
      begin = end;
      continue;
    }
    while (begin < end) {
      const DecodedCodePoint decoded = decode_utf8(text, begin);
      if (!put(text.substr(begin, decoded.length))) characters.push_back({decoded.code_point, 0});
      begin += decoded.length;
    }
  }
  if (modified) transform(aligned, characters);
}

}  // namespace finetune
