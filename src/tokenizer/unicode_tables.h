#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace finetune::unicode {

// What the reference tokenizer takes each code point for. Its tables are of several ages and older than
// ICU's, and the ids must not depend on the ICU of the machine, so they are ours:
// `scripts/generate_unicode_tables` asks the reference about every code point.

/// Code points first .. last, both included.
struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

/// A code point and what replaces it: `targets` ends at the first zero.
struct CodePointSequence {
  uint32_t code_point;
  uint32_t targets[4];
};

/// Code points first, first + stride, ... last, each of whose lower case lies `delta` away.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
  int32_t delta;
};

struct CombiningClassRun {
  uint32_t first;
  uint32_t last;
  uint8_t combining_class;
};

/// `code_point` is replaced by `size` code points of a pool.
struct PoolPlace {
  uint32_t code_point;
  uint32_t begin;
  uint32_t size;
};

/// Two code points and the one that canonical composition makes of them.
struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composite;
};

struct ClusterFlagRun {
  uint32_t first;
  uint32_t last;
  uint8_t flags;  ///< of `ClusterFlag`
};

/// What a code point does to the boundaries of extended grapheme clusters (Unicode Standard Annex 29).
enum ClusterFlag : uint8_t {
  kClusterControl = 1,         ///< a boundary on both sides
  kClusterJoinsPrevious = 2,   ///< no boundary before it: Extend, SpacingMark and ZWJ
  kClusterPrepends = 4,        ///< no boundary behind it
  kClusterExtend = 8,          ///< may stand between a pictograph and its joiner
  kClusterPictograph = 16,     ///< Extended_Pictographic
  kClusterConsonant = 32,      ///< InCB=Consonant
  kClusterLinker = 64,         ///< InCB=Linker
  kClusterLinkerExtend = 128,  ///< InCB=Extend
};

enum class HangulType : uint8_t { kNone, kLeading, kVowel, kTrailing, kOpenSyllable, kClosedSyllable };

/// Properties as the reference's components see them.
enum CharacterClass : uint8_t {
  kLetter = 1,  ///< general category L
  kNumber = 2,  ///< general category N
  kWhiteSpace = 4,
  kWordCharacter = 8,   ///< a letter, digit, mark or connector
  kNumeric = 16,        ///< split off by `Digits`
  kCombiningMark = 32,  ///< removed by `StripAccents`
  kPunctuation = 64,    ///< split off by `Punctuation`
};

inline constexpr uint32_t kFirstHangul = 0xAC00;
inline constexpr uint32_t kLastHangul = 0xD7A3;
inline constexpr size_t kMaxDecomposition = 4;  ///< code points a decomposition has at most

std::span<const CodePointRange> removed_ranges();  ///< dropped by the clean-up of text
std::span<const CodePointRange> white_space_ranges();
std::span<const CodePointRange> punctuation_ranges();  ///< split off as words of their own
std::span<const CodePointRange> chinese_ranges();      ///< set apart by blanks
std::span<const CodePointRange> stripped_mark_ranges();
std::span<const CaseRun> lower_case_runs();
std::span<const CodePointSequence> lower_case_expansions();
std::span<const CombiningClassRun> combining_class_runs();
std::span<const CodePointSequence> decompositions();  ///< canonical and complete; without Hangul syllables

std::span<const CodePointRange> letter_ranges();
std::span<const CodePointRange> number_ranges();
std::span<const CodePointRange> digit_ranges();
std::span<const CodePointRange> regex_word_ranges();

/// The `CharacterClass` flags of a code point; one look-up, whatever the code point.
uint8_t character_class(uint32_t code_point);
/// The `ClusterFlag`s of a code point.
uint8_t cluster_flags(uint32_t code_point);
HangulType hangul_type(uint32_t code_point);

bool is_removed(uint32_t code_point);
bool is_white_space(uint32_t code_point);
bool is_punctuation(uint32_t code_point);
bool is_chinese(uint32_t code_point);
bool is_stripped_mark(uint32_t code_point);
/// A letter, digit, mark or connector: what keeps an added token with `single_word` from matching beside it.
bool is_word_character(uint32_t code_point);
uint8_t combining_class(uint32_t code_point);

/// The complete canonical decomposition into `out`; returns the number of code points, 1 where there is none.
size_t decompose(uint32_t code_point, uint32_t (&out)[kMaxDecomposition]);
/// The complete compatibility decomposition where it differs from the canonical one, else empty.
std::span<const uint32_t> compatibility_decomposition(uint32_t code_point);
/// What canonical composition makes of the two; 0 where they stay apart.
uint32_t compose(uint32_t first, uint32_t second);
/// The lower case of one code point, without context, into `out`; returns the number of code points.
size_t lower_case(uint32_t code_point, uint32_t (&out)[kMaxDecomposition]);

}  // namespace finetune::unicode
