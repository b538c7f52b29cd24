#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "word_cache.h"

namespace finetune {

// Eight bytes at a time in one number, as in "SIMD within a register": the first byte in memory is the
// lowest.
static_assert(std::endian::native == std::endian::little);

/// The ASCII letters and digits that a text begins with.
struct AlphanumericRun {
  ShortWord word;  ///< the first 16 of them
  size_t length;   ///< at most 16
};

namespace ascii {

inline constexpr uint64_t kHighBits = 0x8080808080808080u;

constexpr uint64_t repeat(uint8_t byte) { return byte * uint64_t{0x0101010101010101}; }

/// The highest bit of each byte that lies in [first, last]; all bytes must be below 0x80.
constexpr uint64_t in_range(uint64_t bytes, uint8_t first, uint8_t last) {
  return (bytes + repeat(static_cast<uint8_t>(0x80 - first))) &
         ~(bytes + repeat(static_cast<uint8_t>(0x7F - last))) & kHighBits;
}

/// Of 8 bytes, the number of letters and digits in front; all others become zero, and with `lower` capitals
/// small.
inline size_t take_alphanumeric(uint64_t& bytes, bool lower) {
  const uint64_t low = bytes & ~kHighBits;
  const uint64_t letters = in_range(low | repeat(0x20), 'a', 'z') & ~bytes;
  const uint64_t others = ~(letters | (in_range(low, '0', '9') & ~bytes)) & kHighBits;
  if (lower) bytes |= letters >> 2;  // 0x80 to 0x20
  if (others == 0) return 8;
  const auto length = static_cast<size_t>(std::countr_zero(others)) / 8;
  bytes &= (uint64_t{1} << (8 * length)) - 1;
  return length;
}

inline uint64_t load(const char* text) {
  uint64_t bytes;
  std::memcpy(&bytes, text, sizeof(bytes));
  return bytes;
}

}  // namespace ascii

/// Reads 16 bytes from `text`, whatever the run's length.
inline AlphanumericRun alphanumeric_run(const char* text, bool lower) {
  AlphanumericRun run;
  run.word.low = ascii::load(text);
  run.length = ascii::take_alphanumeric(run.word.low, lower);
  if (run.length < 8) return run;
  run.word.high = ascii::load(text + 8);
  run.length += ascii::take_alphanumeric(run.word.high, lower);
  return run;
}

}  // namespace finetune
