#include "unicode_tables.h"

#include <algorithm>

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
