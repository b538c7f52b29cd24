#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/tokenizer/tokenizer.h"

namespace finetune {

/// The settings of the reference's `BertNormalizer`.
struct BertNormalizerOptions {
  bool clean_text = true;             ///< drop control characters, make every white space a blank
  bool handle_chinese_chars = true;   ///< set blanks around CJK ideographs
  std::optional<bool> strip_accents;  ///< decompose and drop marks; unset: as `lowercase`
  bool lowercase = true;

  bool strips_accents() const { return strip_accents.value_or(lowercase); }
  bool operator==(const BertNormalizerOptions&) const = default;
};

/// A normalised text that knows where it came from.
struct NormalizedText {
  std::string text;
  std::vector<ByteSpan> alignment;  ///< for each byte of `text`, the bytes of the original that it stands for

  /// Where bytes [begin, end) of `text`, not empty, came from.
  ByteSpan original(size_t begin, size_t end) const {
    return {alignment[begin].begin, alignment[end - 1].end};
  }
};

/// Normalises text step by step as the reference does, keeping the origin of every byte. `original_offset` is
/// where `text` begins in the original.
NormalizedText normalize_bert(std::string_view text, int32_t original_offset,
                              const BertNormalizerOptions& options);

/// The jamo of a Hangul syllable, three bytes each, into `out` (room for 9); returns the number of bytes.
size_t encode_jamo(uint32_t syllable, char* out);

/// What normalising and splitting do with one code point.
enum class CharacterAction : uint8_t {
  kKeep,               ///< part of a word, unchanged
  kReplace,            ///< part of a word, replaced by other code points
  kDrop,               ///< vanishes
  kBreak,              ///< ends a word and vanishes
  kIsolate,            ///< a word of its own, unchanged
  kReplaceAndIsolate,  ///< a word of its own, replaced by one other code point
  kHangul,             ///< part of a word, decomposed into jamo
  kInContext           ///< what becomes of it depends on its neighbours: `normalize_bert` must be asked
};

/// The whole of normalising and of splitting into words as one table look-up a code point, for text whose
/// origin is not asked for. Gives the words that `normalize_bert` and the splitter give.
class CharacterMap {
 public:
  explicit CharacterMap(const BertNormalizerOptions& options);

  struct Ascii {
    CharacterAction action;
    char replacement;  ///< the character itself unless `action` is kReplace
  };
  struct Replacement {
    std::string_view bytes;
    uint32_t num_characters;
  };

  Ascii ascii(uint8_t byte) const { return ascii_[byte]; }
  CharacterAction action(uint32_t code_point) const {
    return static_cast<CharacterAction>(entry(code_point) & 7);
  }
  /// For kReplace and kReplaceAndIsolate.
  Replacement replacement(uint32_t code_point) const {
    const uint32_t offset = entry(code_point) >> 3;
    return {{pool_.data() + offset + 2, static_cast<uint8_t>(pool_[offset])},
            static_cast<uint8_t>(pool_[offset + 1])};
  }

 private:
  static constexpr uint32_t kBlockSize = 256;

  uint32_t entry(uint32_t code_point) const {
    return entries_[blocks_[code_point / kBlockSize] * kBlockSize + code_point % kBlockSize];
  }
  void paint(uint32_t first, uint32_t last, CharacterAction action);
  void set(uint32_t code_point, uint32_t value);
  void derive(uint32_t code_point, const BertNormalizerOptions& options);
  uint32_t uniform_block(uint32_t value);

  std::vector<uint16_t> blocks_;   ///< of 256 code points; an index into entries_
  std::vector<uint32_t> entries_;  ///< action in the low 3 bits, place in pool_ above
  std::string pool_;               ///< number of bytes, number of code points, bytes
  size_t num_uniform_ = 0;         ///< the first blocks of entries_ are shared and hold one action each
  Ascii ascii_[128];
};

}  // namespace finetune
