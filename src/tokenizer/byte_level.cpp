#include "byte_level.h"

#include <array>
#include <string>

#include "unicode_tables.h"
#include "utf8.h"

namespace finetune {
namespace {

enum class Kind { kEnd, kLetter, kNumber, kWhiteSpace, kOther };

struct Read {
  Kind kind;
  size_t length;
};

Read read_at(std::string_view text, size_t position) {
  if (position >= text.size()) return {Kind::kEnd, 0};
  const DecodedCodePoint decoded = decode_utf8(text, position);
  const uint8_t flags = unicode::character_class(decoded.code_point);
  if ((flags & unicode::kLetter) != 0) return {Kind::kLetter, decoded.length};
  if ((flags & unicode::kNumber) != 0) return {Kind::kNumber, decoded.length};
  if ((flags & unicode::kWhiteSpace) != 0) return {Kind::kWhiteSpace, decoded.length};
  return {Kind::kOther, decoded.length};
}

size_t run_end(std::string_view text, size_t position, Kind kind) {
  for (Read next = read_at(text, position); next.kind == kind; next = read_at(text, position)) {
    position += next.length;
  }
  return position;
}

/// The length of a contraction behind the apostrophe with which `text` begins, the apostrophe included; 0
/// where there is none.
size_t contraction_length(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

/// White space up to the last one before a word, which goes with the word if it is a blank, and stands alone
/// else.
size_t white_space_end(std::string_view text, size_t begin) {
  const size_t end = run_end(text, begin, Kind::kWhiteSpace);
  if (end == text.size()) return end;
  const size_t last = previous_code_point(text, end);
  return last > begin ? last : end;
}

struct Alphabet {
  std::array<char, 2> bytes[256];
  uint8_t sizes[256];

  Alphabet() {
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool visible =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
      char buffer[4] = {};
      sizes[byte] = static_cast<uint8_t>(encode_utf8(visible ? byte : next++, buffer));
      bytes[byte] = {buffer[0], buffer[1]};
    }
  }
};

}  // namespace

size_t byte_level_word_end(std::string_view text, size_t begin) {
  if (text[begin] == '\'') {
    if (const size_t length = contraction_length(text.substr(begin)); length > 0) return begin + length;
  }
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  const Read first = read_at(text, start);
  if (first.kind == Kind::kEnd || first.kind == Kind::kWhiteSpace) return white_space_end(text, begin);
  return run_end(text, start + first.length, first.kind);
}

std::string_view byte_level_character(uint8_t byte) {
  static const Alphabet kAlphabet;
  return {kAlphabet.bytes[byte].data(), kAlphabet.sizes[byte]};
}

}  // namespace finetune
