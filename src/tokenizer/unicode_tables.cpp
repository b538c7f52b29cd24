#include "unicode_tables.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace finetune::unicode {
namespace {

#include "unicode_tables_data.inc"

/// The entry whose [first, last] holds the code point, or null.
template <typename Entry, size_t N>
const Entry* find_range(const Entry (&entries)[N], uint32_t code_point) {
  const Entry* after =
      std::upper_bound(std::begin(entries), std::end(entries), code_point,
                       [](uint32_t value, const Entry& entry) { return value < entry.first; });
  if (after == std::begin(entries)) return nullptr;
  const Entry* entry = after - 1;
  return code_point <= entry->last ? entry : nullptr;
}

template <size_t N>
const CodePointSequence* find_sequence(const CodePointSequence (&entries)[N], uint32_t code_point) {
  const CodePointSequence* entry = std::lower_bound(
      std::begin(entries), std::end(entries), code_point,
      [](const CodePointSequence& candidate, uint32_t value) { return candidate.code_point < value; });
  return entry != std::end(entries) && entry->code_point == code_point ? entry : nullptr;
}

size_t copy_targets(const CodePointSequence& sequence, uint32_t (&out)[kMaxDecomposition]) {
  size_t count = 0;
  while (count < kMaxDecomposition && sequence.targets[count] != 0) {
    out[count] = sequence.targets[count];
    ++count;
  }
  return count;
}

/// A byte for each code point, in blocks of which equal ones at the beginning are shared.
class FlagTable {
 public:
  uint8_t operator[](uint32_t code_point) const {
    return code_point < kLimit ? flags_[blocks_[code_point / kBlock] * kBlock + code_point % kBlock] : 0;
  }

  void add(uint32_t first, uint32_t last, uint8_t flags) {
    for (uint32_t code_point = first; code_point <= last; ++code_point) {
      uint16_t& block = blocks_[code_point / kBlock];
      if (block == 0) {
        block = static_cast<uint16_t>(flags_.size() / kBlock);
        flags_.resize(flags_.size() + kBlock);
      }
      flags_[block * kBlock + code_point % kBlock] |= flags;
    }
  }

 private:
  static constexpr uint32_t kLimit = 0x110000;
  static constexpr uint32_t kBlock = 256;

  std::vector<uint16_t> blocks_ = std::vector<uint16_t>(kLimit / kBlock);  ///< 0: the block of zeros
  std::vector<uint8_t> flags_ = std::vector<uint8_t>(kBlock);
};

FlagTable make_character_classes() {
  FlagTable table;
  const auto add = [&](std::span<const CodePointRange> ranges, CharacterClass flag) {
    for (const CodePointRange& range : ranges) table.add(range.first, range.last, flag);
  };
  add(kLetterRanges, kLetter);
  add(kNumberRanges, kNumber);
  add(kWhiteSpaceRanges, kWhiteSpace);
  add(kWordCharacterRanges, kWordCharacter);
  add(kNumericRanges, kNumeric);
  add(kCombiningMarkRanges, kCombiningMark);
  add(kPunctuationRanges, kPunctuation);
  return table;
}

FlagTable make_cluster_flags() {
  FlagTable table;
  for (const ClusterFlagRun& run : kClusterFlagRuns) table.add(run.first, run.last, run.flags);
  return table;
}

size_t decompose_hangul(uint32_t code_point, uint32_t (&out)[kMaxDecomposition]) {
  // The Unicode Standard, section 3.12: 19 leading x 21 vowels x 28 trailing jamo.
  const uint32_t index = code_point - kFirstHangul;
  out[0] = 0x1100 + index / 588;
  out[1] = 0x1161 + index % 588 / 28;
  if (index % 28 == 0) return 2;
  out[2] = 0x11A7 + index % 28;
  return 3;
}

}  // namespace

std::span<const CodePointRange> removed_ranges() { return kRemovedRanges; }
std::span<const CodePointRange> white_space_ranges() { return kWhiteSpaceRanges; }
std::span<const CodePointRange> punctuation_ranges() { return kPunctuationRanges; }
std::span<const CodePointRange> chinese_ranges() { return kChineseRanges; }
std::span<const CodePointRange> stripped_mark_ranges() { return kStrippedMarkRanges; }
std::span<const CaseRun> lower_case_runs() { return kLowerCaseRuns; }
std::span<const CodePointSequence> lower_case_expansions() { return kLowerCaseExpansions; }
std::span<const CombiningClassRun> combining_class_runs() { return kCombiningClassRuns; }
std::span<const CodePointSequence> decompositions() { return kDecompositions; }

std::span<const CodePointRange> letter_ranges() { return kLetterRanges; }
std::span<const CodePointRange> number_ranges() { return kNumberRanges; }
std::span<const CodePointRange> digit_ranges() { return kDigitRanges; }
std::span<const CodePointRange> regex_word_ranges() { return kRegexWordRanges; }

uint8_t character_class(uint32_t code_point) {
  static const FlagTable kTable = make_character_classes();
  return kTable[code_point];
}

uint8_t cluster_flags(uint32_t code_point) {
  static const FlagTable kTable = make_cluster_flags();
  return kTable[code_point];
}

HangulType hangul_type(uint32_t code_point) {
  if (code_point < 0x1100) return HangulType::kNone;
  if (code_point >= kFirstHangul && code_point <= kLastHangul) {
    return (code_point - kFirstHangul) % 28 == 0 ? HangulType::kOpenSyllable : HangulType::kClosedSyllable;
  }
  if (find_range(kHangulLeadingRanges, code_point) != nullptr) return HangulType::kLeading;
  if (find_range(kHangulVowelRanges, code_point) != nullptr) return HangulType::kVowel;
  return find_range(kHangulTrailingRanges, code_point) != nullptr ? HangulType::kTrailing : HangulType::kNone;
}

bool is_removed(uint32_t code_point) { return find_range(kRemovedRanges, code_point) != nullptr; }
bool is_white_space(uint32_t code_point) { return find_range(kWhiteSpaceRanges, code_point) != nullptr; }
bool is_punctuation(uint32_t code_point) { return find_range(kPunctuationRanges, code_point) != nullptr; }
bool is_chinese(uint32_t code_point) { return find_range(kChineseRanges, code_point) != nullptr; }
bool is_stripped_mark(uint32_t code_point) { return find_range(kStrippedMarkRanges, code_point) != nullptr; }
bool is_word_character(uint32_t code_point) {
  return find_range(kWordCharacterRanges, code_point) != nullptr;
}

uint8_t combining_class(uint32_t code_point) {
  const CombiningClassRun* run = find_range(kCombiningClassRuns, code_point);
  return run == nullptr ? 0 : run->combining_class;
}

size_t decompose(uint32_t code_point, uint32_t (&out)[kMaxDecomposition]) {
  if (code_point >= kFirstHangul && code_point <= kLastHangul) return decompose_hangul(code_point, out);
  if (const CodePointSequence* sequence = find_sequence(kDecompositions, code_point)) {
    return copy_targets(*sequence, out);
  }
  out[0] = code_point;
  return 1;
}

std::span<const uint32_t> compatibility_decomposition(uint32_t code_point) {
  const PoolPlace* place = std::lower_bound(
      std::begin(kCompatibilityPlaces), std::end(kCompatibilityPlaces), code_point,
      [](const PoolPlace& candidate, uint32_t value) { return candidate.code_point < value; });
  if (place == std::end(kCompatibilityPlaces) || place->code_point != code_point) return {};
  return {kCompatibilityPool + place->begin, place->size};
}

uint32_t compose(uint32_t first, uint32_t second) {
  // The Unicode Standard, section 3.12: a leading jamo and a vowel, or an open syllable and a trailing jamo.
  if (first >= 0x1100 && first < 0x1113 && second >= 0x1161 && second < 0x1176) {
    return kFirstHangul + ((first - 0x1100) * 21 + (second - 0x1161)) * 28;
  }
  if (hangul_type(first) == HangulType::kOpenSyllable && second > 0x11A7 && second < 0x11C3) {
    return first + (second - 0x11A7);
  }
  const Composition* found =
      std::lower_bound(std::begin(kCompositions), std::end(kCompositions), std::pair(first, second),
                       [](const Composition& candidate, const auto& pair) {
                         return std::pair(candidate.first, candidate.second) < pair;
                       });
  const bool known = found != std::end(kCompositions) && found->first == first && found->second == second;
  return known ? found->composite : 0;
}

size_t lower_case(uint32_t code_point, uint32_t (&out)[kMaxDecomposition]) {
  if (const CodePointSequence* sequence = find_sequence(kLowerCaseExpansions, code_point)) {
    return copy_targets(*sequence, out);
  }
  out[0] = code_point;
  const CaseRun* run = find_range(kLowerCaseRuns, code_point);
  if (run != nullptr && (code_point - run->first) % run->stride == 0) {
    out[0] = code_point + static_cast<uint32_t>(run->delta);
  }
  return 1;
}

}  // namespace finetune::unicode
