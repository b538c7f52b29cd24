#include "bert_normalizer.h"

#include <algorithm>

#include "unicode_tables.h"
#include "utf8.h"

namespace finetune {
namespace {

struct Character {
  uint32_t code_point;
  ByteSpan origin;
};

std::vector<Character> decode(std::string_view text, int32_t original_offset) {
  std::vector<Character> characters;
  characters.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const DecodedCodePoint decoded = decode_utf8(text, position);
    const auto begin = original_offset + static_cast<int32_t>(position);
    characters.push_back({decoded.code_point, {begin, begin + static_cast<int32_t>(decoded.length)}});
    position += decoded.length;
  }
  return characters;
}

void clean(std::vector<Character>& characters) {
  std::erase_if(characters, [](const Character& c) { return unicode::is_removed(c.code_point); });
  for (Character& c : characters) {
    if (unicode::is_white_space(c.code_point)) c.code_point = ' ';
  }
}

void set_chinese_apart(std::vector<Character>& characters) {
  std::vector<Character> apart;
  apart.reserve(characters.size());
  for (const Character& c : characters) {
    const bool chinese = unicode::is_chinese(c.code_point);
    if (chinese) apart.push_back({' ', c.origin});
    apart.push_back(c);
    if (chinese) apart.push_back({' ', c.origin});
  }
  characters.swap(apart);
}

/// Canonical decomposition and ordering. The reference hands out origins in the order of the output, not with
/// the marks that it reorders: one for each character it read, and again the last for each character that a
/// decomposition adds.
void decompose(std::vector<Character>& characters) {
  struct Part {
    uint32_t code_point;
    uint8_t combining_class;
    bool added;
  };
  std::vector<Part> parts;
  parts.reserve(characters.size());
  uint32_t targets[unicode::kMaxDecomposition];
  for (const Character& c : characters) {
    const size_t count = unicode::decompose(c.code_point, targets);
    for (size_t i = 0; i < count; ++i) {
      parts.push_back({targets[i], unicode::combining_class(targets[i]), i > 0});
    }
  }
  for (auto begin = parts.begin(); begin != parts.end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, parts.end(), [](const Part& part) { return part.combining_class == 0; });
    std::stable_sort(begin, end,
                     [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
  std::vector<Character> decomposed;
  decomposed.reserve(parts.size());
  size_t next = 0;
  for (const Part& part : parts) {
    if (!part.added) ++next;
    decomposed.push_back({part.code_point, next == 0 ? ByteSpan{} : characters[next - 1].origin});
  }
  characters.swap(decomposed);
}

void lower(std::vector<Character>& characters) {
  std::vector<Character> lowered;
  lowered.reserve(characters.size());
  uint32_t targets[unicode::kMaxDecomposition];
  for (const Character& c : characters) {
    const size_t count = unicode::lower_case(c.code_point, targets);
    for (size_t i = 0; i < count; ++i) lowered.push_back({targets[i], c.origin});
  }
  characters.swap(lowered);
}

}  // namespace

NormalizedText normalize_bert(std::string_view text, int32_t original_offset,
                              const BertNormalizerOptions& options) {
  std::vector<Character> characters = decode(text, original_offset);
  if (options.clean_text) clean(characters);
  if (options.handle_chinese_chars) set_chinese_apart(characters);
  if (options.strips_accents()) {
    decompose(characters);
    std::erase_if(characters, [](const Character& c) { return unicode::is_stripped_mark(c.code_point); });
  }
  if (options.lowercase) lower(characters);

  NormalizedText normalized;
  normalized.text.reserve(text.size());
  normalized.alignment.reserve(text.size());
  for (const Character& c : characters) {
    append_utf8(c.code_point, normalized.text);
    normalized.alignment.resize(normalized.text.size(), c.origin);
  }
  return normalized;
}

size_t encode_jamo(uint32_t syllable, char* out) {
  uint32_t jamo[unicode::kMaxDecomposition];
  const size_t count = unicode::decompose(syllable, jamo);
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += encode_utf8(jamo[i], out + size);
  return size;
}

CharacterMap::CharacterMap(const BertNormalizerOptions& options) {
  constexpr uint32_t kNumBlocks = 0x110000 / kBlockSize;
  for (int action = 0; action < 8; ++action)
    entries_.insert(entries_.end(), kBlockSize, static_cast<uint32_t>(action));
  num_uniform_ = 8;
  blocks_.assign(kNumBlocks, static_cast<uint16_t>(CharacterAction::kKeep));

  // Later steps of the normaliser are painted first, so that what an earlier step decides covers them.
  for (const auto& range : unicode::white_space_ranges())
    paint(range.first, range.last, CharacterAction::kBreak);
  for (const auto& range : unicode::punctuation_ranges())
    paint(range.first, range.last, CharacterAction::kIsolate);
  if (options.handle_chinese_chars) {
    for (const auto& range : unicode::chinese_ranges())
      paint(range.first, range.last, CharacterAction::kIsolate);
  }
  if (options.lowercase) {
    for (const auto& run : unicode::lower_case_runs()) {
      for (uint32_t c = run.first; c <= run.last; c += run.stride) derive(c, options);
    }
    for (const auto& sequence : unicode::lower_case_expansions()) derive(sequence.code_point, options);
  }
  if (options.strips_accents()) {
    paint(unicode::kFirstHangul, unicode::kLastHangul, CharacterAction::kHangul);
    for (const auto& sequence : unicode::decompositions()) derive(sequence.code_point, options);
    for (const auto& run : unicode::combining_class_runs()) {
      paint(run.first, run.last, CharacterAction::kInContext);
    }
    // A mark that is stripped leaves nothing to reorder.
    for (const auto& range : unicode::stripped_mark_ranges())
      paint(range.first, range.last, CharacterAction::kDrop);
  }
  if (options.clean_text) {
    for (const auto& range : unicode::removed_ranges())
      paint(range.first, range.last, CharacterAction::kDrop);
  }
  for (uint32_t c = 0; c < 128; ++c) {
    const CharacterAction found = action(c);
    const bool replaced = found == CharacterAction::kReplace;
    ascii_[c] = {found, replaced ? replacement(c).bytes[0] : static_cast<char>(c)};
  }
}

void CharacterMap::paint(uint32_t first, uint32_t last, CharacterAction action) {
  for (uint32_t c = first; c <= last;) {
    if (c % kBlockSize == 0 && last - c >= kBlockSize - 1) {
      blocks_[c / kBlockSize] = static_cast<uint16_t>(action);
      c += kBlockSize;
    } else {
      set(c++, static_cast<uint32_t>(action));
    }
  }
}

void CharacterMap::set(uint32_t code_point, uint32_t value) {
  uint16_t& block = blocks_[code_point / kBlockSize];
  if (block < num_uniform_) {
    const auto shared = static_cast<uint32_t>(block);
    block = static_cast<uint16_t>(entries_.size() / kBlockSize);
    entries_.insert(entries_.end(), kBlockSize, shared);
  }
  entries_[block * kBlockSize + code_point % kBlockSize] = value;
}

void CharacterMap::derive(uint32_t code_point, const BertNormalizerOptions& options) {
  if (unicode::is_white_space(code_point)) return;  // U+2000 decomposes into another white space
  uint32_t parts[unicode::kMaxDecomposition] = {code_point};
  const size_t num_parts = options.strips_accents() ? unicode::decompose(code_point, parts) : 1;
  std::string bytes;
  uint32_t num_characters = 0, num_punctuation = 0;
  bool reorderable = false;
  for (size_t i = 0; i < num_parts; ++i) {
    if (options.strips_accents()) {
      if (unicode::is_stripped_mark(parts[i])) continue;
      reorderable |= unicode::combining_class(parts[i]) != 0;
    }
    uint32_t lowered[unicode::kMaxDecomposition] = {parts[i]};
    const size_t num_lowered = options.lowercase ? unicode::lower_case(parts[i], lowered) : 1;
    for (size_t j = 0; j < num_lowered; ++j) {
      append_utf8(lowered[j], bytes);
      ++num_characters;
      num_punctuation += unicode::is_punctuation(lowered[j]);
      reorderable |= unicode::is_white_space(lowered[j]);
    }
  }
  const bool isolated =
      num_punctuation > 0 || (options.handle_chinese_chars && unicode::is_chinese(code_point));
  CharacterAction action = isolated ? CharacterAction::kReplaceAndIsolate : CharacterAction::kReplace;
  if (num_characters == 0) action = CharacterAction::kDrop;
  if (reorderable || (isolated && num_characters != 1)) action = CharacterAction::kInContext;
  uint32_t place = 0;
  if (action == CharacterAction::kReplace || action == CharacterAction::kReplaceAndIsolate) {
    place = static_cast<uint32_t>(pool_.size());
    pool_.push_back(static_cast<char>(bytes.size()));
    pool_.push_back(static_cast<char>(num_characters));
    pool_ += bytes;
  }
  set(code_point, static_cast<uint32_t>(action) | place << 3);
}

}  // namespace finetune
