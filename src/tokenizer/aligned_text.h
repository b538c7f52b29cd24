#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_normalizer.h"
#include "utf8.h"

namespace finetune {

/// A text on its way through normalisers and pre-tokenisers. It knows where its bytes came from unless nobody
/// asks for it.
struct AlignedText : NormalizedText {
  bool tracked = true;  ///< `alignment` is kept
  int32_t origin = 0;   ///< where the text that this was made of begins in the original

  void clear() {
    text.clear();
    alignment.clear();
  }
  /// Appends bytes that all came from `span`.
  void append(std::string_view bytes, ByteSpan span) {
    text.append(bytes);
    if (tracked) alignment.resize(text.size(), span);
  }
  /// Appends bytes [begin, end) of another text, which is tracked as this one is.
  void append(const AlignedText& from, size_t begin, size_t end) {
    text.append(from.text, begin, end - begin);
    if (!tracked) return;
    const auto first = from.alignment.begin();
    alignment.insert(alignment.end(), first + static_cast<std::ptrdiff_t>(begin),
                     first + static_cast<std::ptrdiff_t>(end));
  }
  /// What the byte at `position` came from; an empty span at the origin where there is none.
  ByteSpan span_at(size_t position) const {
    return position < alignment.size() ? alignment[position] : ByteSpan{origin, origin};
  }
  /// What the byte before `position` came from.
  ByteSpan span_before(size_t position) const {
    return position > 0 ? span_at(position - 1) : ByteSpan{origin, origin};
  }
};

/// Bytes [begin, end) of `original`, each aligned with its character.
AlignedText make_aligned(std::string_view original, size_t begin, size_t end, bool tracked);

/// One character of a transformed text. `change` says what it stands for: 0 for the next character of the
/// text, -n for the next one and n more behind it, 1 for none (it was inserted behind the last).
struct TransformedCharacter {
  uint32_t code_point;
  int32_t change;
};

/// Replaces the text, giving each new character the origin that the reference gives it
/// (`NormalizedString::transform` of the `tokenizers` crate).
void transform(AlignedText& text, std::span<const TransformedCharacter> characters);

/// Removes the characters for which `removed(code_point)` holds.
template <typename Predicate>
void remove_characters(AlignedText& text, Predicate removed) {
  AlignedText kept{{}, text.tracked, text.origin};
  for (size_t position = 0; position < text.text.size();) {
    const DecodedCodePoint decoded = decode_utf8(text.text, position);
    if (!removed(decoded.code_point)) kept.append(text, position, position + decoded.length);
    position += decoded.length;
  }
  if (kept.text.size() < text.text.size()) text = std::move(kept);
}

/// Whether every byte is below 0x80.
bool is_ascii(std::string_view text);

}  // namespace finetune
