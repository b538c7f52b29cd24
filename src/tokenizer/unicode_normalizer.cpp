#include "unicode_normalizer.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "unicode_tables.h"

namespace finetune {
namespace {

struct Part {
  TransformedCharacter character;
  uint8_t combining_class;
};

void append_decomposition(uint32_t code_point, bool compatibility, std::vector<Part>& parts) {
  const auto add = [&](std::span<const uint32_t> targets) {
    for (size_t i = 0; i < targets.size(); ++i) {
      parts.push_back({{targets[i], i > 0 ? 1 : 0}, unicode::combining_class(targets[i])});
    }
  };
  if (compatibility) {
    if (const auto targets = unicode::compatibility_decomposition(code_point); !targets.empty()) {
      add(targets);
      return;
    }
  }
  uint32_t targets[unicode::kMaxDecomposition];
  add({targets, unicode::decompose(code_point, targets)});
}

void sort_marks(std::vector<Part>& parts) {
  const auto is_starter = [](const Part& part) { return part.combining_class == 0; };
  for (auto begin = parts.begin(); begin != parts.end();) {
    begin = std::find_if_not(begin, parts.end(), is_starter);
    const auto end = std::find_if(begin, parts.end(), is_starter);
    std::stable_sort(begin, end,
                     [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

/// Canonical composition. A composite stands for all that was joined into it.
std::vector<TransformedCharacter> compose(const std::vector<Part>& parts) {
  std::vector<TransformedCharacter> composed;
  composed.reserve(parts.size());
  std::optional<size_t> starter;
  int last_class = -1;  // of the marks between the starter and the next character; -1: there are none
  for (const auto& [character, combining_class] : parts) {
    if (starter && last_class < combining_class) {
      TransformedCharacter& base = composed[*starter];
      if (const uint32_t joined = unicode::compose(base.code_point, character.code_point); joined != 0) {
        base = {joined, base.change + character.change - 1};
        continue;
      }
    }
    if (combining_class == 0) {
      starter = composed.size();
      last_class = -1;
    } else if (starter) {
      last_class = combining_class;
    }
    composed.push_back(character);
  }
  return composed;
}

}  // namespace

void normalize_unicode(AlignedText& text, NormalizationForm form) {
  if (is_ascii(text.text)) return;
  const bool compatibility = form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
  std::vector<Part> parts;
  parts.reserve(text.text.size());
  for (size_t position = 0; position < text.text.size();) {
    const DecodedCodePoint decoded = decode_utf8(text.text, position);
    append_decomposition(decoded.code_point, compatibility, parts);
    position += decoded.length;
  }
  sort_marks(parts);
  if (form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc) {
    transform(text, compose(parts));
    return;
  }
  std::vector<TransformedCharacter> characters;
  characters.reserve(parts.size());
  for (const Part& part : parts) characters.push_back(part.character);
  transform(text, characters);
}

}  // namespace finetune
