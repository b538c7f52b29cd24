#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace finetune {

/// One code point read from UTF-8, and the bytes it took.
struct DecodedCodePoint {
  uint32_t code_point;
  uint32_t length;
};

/// Reads the code point at `position`. A byte that starts no valid sequence reads as U+FFFD of length 1, so
/// callers may pass any bytes.
inline DecodedCodePoint decode_utf8(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const size_t left = text.size() - position;
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && left >= 2 && continues(1)) {
    return {(lead & 0x1F) << 6 | (byte(1) & 0x3Fu), 2};
  }
  if (lead >= 0xE0 && lead < 0xF0 && left >= 3 && continues(1) && continues(2)) {
    const uint32_t value = (lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    if (value >= 0x800 && (value < 0xD800 || value > 0xDFFF)) return {value, 3};
  }
  if (lead >= 0xF0 && lead < 0xF5 && left >= 4 && continues(1) && continues(2) && continues(3)) {
    const uint32_t value =
        (lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    if (value >= 0x10000 && value <= 0x10FFFF) return {value, 4};
  }
  return {0xFFFD, 1};
}

/// Writes a code point as UTF-8 into `out` (room for 4) and returns the number of bytes.
inline size_t encode_utf8(uint32_t code_point, char* out) {
  const auto put = [&](size_t i, uint32_t value) { out[i] = static_cast<char>(value); };
  if (code_point < 0x80) {
    put(0, code_point);
    return 1;
  }
  if (code_point < 0x800) {
    put(0, 0xC0 | code_point >> 6);
    put(1, 0x80 | (code_point & 0x3F));
    return 2;
  }
  if (code_point < 0x10000) {
    put(0, 0xE0 | code_point >> 12);
    put(1, 0x80 | (code_point >> 6 & 0x3F));
    put(2, 0x80 | (code_point & 0x3F));
    return 3;
  }
  put(0, 0xF0 | code_point >> 18);
  put(1, 0x80 | (code_point >> 12 & 0x3F));
  put(2, 0x80 | (code_point >> 6 & 0x3F));
  put(3, 0x80 | (code_point & 0x3F));
  return 4;
}

inline void append_utf8(uint32_t code_point, std::string& text) {
  char buffer[4];
  text.append(buffer, encode_utf8(code_point, buffer));
}

/// The first byte of the code point that ends right before `end` (> 0).
inline size_t previous_code_point(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

}  // namespace finetune
