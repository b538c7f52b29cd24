#include "aligned_text.h"

#include <algorithm>
#include <utility>

namespace finetune {

AlignedText make_aligned(std::string_view original, size_t begin, size_t end, bool tracked) {
  AlignedText text;
  text.tracked = tracked;
  text.origin = static_cast<int32_t>(begin);
  text.text.assign(original.substr(begin, end - begin));
  if (!tracked) return text;
  text.alignment.reserve(text.text.size());
  for (size_t position = 0; position < text.text.size();) {
    const uint32_t length = decode_utf8(text.text, position).length;
    const auto at = static_cast<int32_t>(begin + position);
    position += length;
    text.alignment.resize(position, {at, at + static_cast<int32_t>(length)});
  }
  return text;
}

void transform(AlignedText& text, std::span<const TransformedCharacter> characters) {
  const std::string old = std::exchange(text.text, {});
  text.text.reserve(old.size());
  if (!text.tracked) {
    for (const TransformedCharacter& character : characters) append_utf8(character.code_point, text.text);
    return;
  }
  AlignedText result{{}, true, text.origin};
  result.text = std::move(text.text);
  result.alignment.reserve(old.size());
  size_t position = 0;
  const auto skip = [&] {
    if (position < old.size()) position += decode_utf8(old, position).length;
  };
  for (const TransformedCharacter& character : characters) {
    const ByteSpan span = character.change > 0 ? text.span_before(position) : text.span_at(position);
    if (character.change <= 0) skip();
    for (int32_t i = character.change; i < 0; ++i) skip();
    char bytes[4];
    const size_t size = encode_utf8(character.code_point, bytes);
    result.append({bytes, size}, span);
  }
  text = std::move(result);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

}  // namespace finetune
