#include "pre_tokenizers.h"

#include <algorithm>
#include <utility>

#include "byte_level.h"
#include "json_access.h"
#include "regex_pattern.h"
#include "text_normalizers.h"
#include "unicode_tables.h"

namespace finetune {
namespace {

using nlohmann::json;

/// What becomes of the parts that match (`SplitDelimiterBehavior`).
enum class Delimiters { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Delimiters parse_behavior(const json& component, const std::string& fallback, const std::string& place) {
  const auto name = get_or(component, "behavior", fallback, place);
  if (name == "Removed") return Delimiters::kRemoved;
  if (name == "Isolated") return Delimiters::kIsolated;
  if (name == "MergedWithPrevious") return Delimiters::kMergedWithPrevious;
  if (name == "MergedWithNext") return Delimiters::kMergedWithNext;
  if (name == "Contiguous") return Delimiters::kContiguous;
  fail_at(place + "/behavior", "'" + name + "'",
          "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

/// Adds the words that `parts` (of text that begins at `offset`) make.
void add_parts(std::vector<PatternPart> parts, Delimiters behavior, size_t offset, SplitText& result) {
  const bool backwards = behavior == Delimiters::kMergedWithNext;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<SplitText::Word> words;
  bool previous_match = false;
  for (const PatternPart& part : parts) {
    if (behavior == Delimiters::kRemoved && part.is_match) continue;
    bool merges = false;
    if (behavior == Delimiters::kContiguous) merges = part.is_match == previous_match;
    if (behavior == Delimiters::kMergedWithPrevious || backwards) merges = part.is_match && !previous_match;
    previous_match = part.is_match;
    if (!merges || words.empty()) {
      words.push_back({part.begin, part.end});
    } else {
      words.back() = {std::min(words.back().begin, part.begin), std::max(words.back().end, part.end)};
    }
  }
  if (backwards) std::reverse(words.begin(), words.end());
  for (const auto& word : words) result.add_word(offset + word.begin, offset + word.end);
}

/// Cuts each word without a change of the text.
template <typename Cut>
void cut_words(SplitText& text, Cut cut) {
  const std::vector<SplitText::Word> words = std::exchange(text.words, {});
  for (const auto& [begin, end] : words) {
    cut(std::string_view(text.text.text).substr(begin, end - begin), begin);
  }
}

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void split(SplitText& text) const override {
    for (const auto& part : parts_) part->split(text);
  }
  bool needs_origins() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->needs_origins(); });
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

/// Cuts at characters of a class.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(uint8_t classes, Delimiters behavior) : classes_(classes), behavior_(behavior) {}
  void split(SplitText& text) const override {
    cut_words(text, [&](std::string_view word, size_t offset) {
      std::vector<PatternPart> parts;
      size_t last = 0;
      for (size_t position = 0; position < word.size();) {
        const DecodedCodePoint decoded = decode_utf8(word, position);
        const size_t next = position + decoded.length;
        if ((unicode::character_class(decoded.code_point) & classes_) != 0) {
          if (last < position) parts.push_back({last, position, false});
          parts.push_back({position, next, true});
          last = next;
        }
        position = next;
      }
      if (last < word.size()) parts.push_back({last, word.size(), false});
      add_parts(std::move(parts), behavior_, offset, text);
    });
  }

 private:
  uint8_t classes_;
  Delimiters behavior_;
};

/// \w+|[^\w\s]+
class Whitespace : public PreTokenizer {
 public:
  void split(SplitText& text) const override {
    cut_words(text, [&](std::string_view word, size_t offset) {
      size_t begin = 0;
      int last_kind = kBlank;
      for (size_t position = 0; position < word.size();) {
        const DecodedCodePoint decoded = decode_utf8(word, position);
        const int kind = kind_of(decoded.code_point);
        if (kind != last_kind) {
          if (last_kind != kBlank) text.add_word(offset + begin, offset + position);
          begin = position;
          last_kind = kind;
        }
        position += decoded.length;
      }
      if (last_kind != kBlank) text.add_word(offset + begin, offset + word.size());
    });
  }

 private:
  static constexpr int kBlank = 0, kWord = 1, kOther = 2;
  static int kind_of(uint32_t code_point) {
    const uint8_t flags = unicode::character_class(code_point);
    if ((flags & unicode::kWordCharacter) != 0) return kWord;
    return (flags & unicode::kWhiteSpace) != 0 ? kBlank : kOther;
  }
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(TextPattern pattern, Delimiters behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(SplitText& text) const override {
    cut_words(text, [&](std::string_view word, size_t offset) {
      std::vector<PatternPart> parts = pattern_.parts(word);
      for (PatternPart& part : parts) part.is_match ^= invert_;
      add_parts(std::move(parts), behavior_, offset, text);
    });
  }

 private:
  TextPattern pattern_;
  Delimiters behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(SplitText& text) const override {
    AlignedText spaced{{}, text.text.tracked, text.text.origin};
    SplitText result{{{}, text.text.tracked, text.text.origin}, {}};
    for (const auto& [begin, end] : text.words) {
      if (add_prefix_space_ && text.text.text[begin] != ' ') {
        spaced.clear();
        spaced.append(" ", text.text.span_at(begin));
        spaced.append(text.text, begin, end);
        add_words(spaced, 0, spaced.text.size(), result);
      } else {
        add_words(text.text, begin, end, result);
      }
    }
    text = std::move(result);
  }

 private:
  void add_words(const AlignedText& from, size_t begin, size_t end, SplitText& result) const {
    const std::string_view text = std::string_view(from.text).substr(0, end);
    while (begin < end) {
      const size_t word_end = use_regex_ ? byte_level_word_end(text, begin) : end;
      const size_t mark = result.text.text.size();
      for (; begin < word_end; ++begin) {
        result.text.append(byte_level_character(static_cast<uint8_t>(text[begin])), from.span_at(begin));
      }
      result.add_word(mark, result.text.text.size());
    }
  }

  bool add_prefix_space_, use_regex_;
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}

  void split(SplitText& text) const override {
    SplitText result{{{}, text.text.tracked, text.text.origin}, {}};
    for (const auto& [begin, end] : text.words) add_word(text.text, begin, end, result);
    text = std::move(result);
  }
  bool needs_origins() const override { return prepend_ == Prepend::kFirst; }

 private:
  void add_word(const AlignedText& from, size_t begin, size_t end, SplitText& result) const {
    const size_t start = result.text.text.size();
    const std::string_view word = std::string_view(from.text).substr(begin, end - begin);
    const bool marked = word[0] == ' ' || word.starts_with(mark_);
    const bool prepends =
        prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && from.span_at(begin).begin == 0);
    if (!marked && prepends) result.text.append(mark_, from.span_at(begin));
    for (size_t blank = from.text.find(' ', begin); blank < end; blank = from.text.find(' ', begin)) {
      result.text.append(from, begin, blank);
      result.text.append(mark_, from.span_at(blank));
      begin = blank + 1;
    }
    result.text.append(from, begin, end);
    if (split_) {
      cut_before_marks(start, result);
    } else {
      result.add_word(start, result.text.text.size());
    }
  }

  /// A mark goes with what follows it, unless that is another mark.
  void cut_before_marks(size_t begin, SplitText& result) const {
    const std::string& text = result.text.text;
    for (size_t at = text.find(mark_, begin + 1); at < text.size();
         at = text.find(mark_, at + mark_.size())) {
      result.add_word(begin, at);
      begin = at;
    }
    result.add_word(begin, text.size());
  }

  std::string mark_;
  Prepend prepend_;
  bool split_;
};

std::unique_ptr<PreTokenizer> make_metaspace(const json& component, const std::string& place) {
  const auto mark = get_or<std::string>(component, "replacement", "\u2581", place);
  auto scheme = get_or<std::string>(component, "prepend_scheme", "always", place);
  if (!get_or(component, "add_prefix_space", true, place)) scheme = "never";
  if (mark.empty() || decode_utf8(mark, 0).length != mark.size()) {
    fail_at(place + "/replacement", "'" + mark + "'", "one character");
  }
  Metaspace::Prepend prepend = Metaspace::Prepend::kAlways;
  if (scheme == "first") {
    prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    fail_at(place + "/prepend_scheme", "'" + scheme + "'", "'always', 'first' or 'never'");
  }
  return std::make_unique<Metaspace>(mark, prepend, get_or(component, "split", true, place));
}

std::unique_ptr<PreTokenizer> make_sequence(const json& component, const std::string& place,
                                            bool before_words) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  size_t number = 0;
  for (const json& part : member(component, "pretokenizers", place)) {
    const std::string part_place = place + "/pretokenizers/" + std::to_string(number++);
    parts.push_back(make_pre_tokenizer(part, part_place, before_words));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<PreTokenizer> make_bert() {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  parts.push_back(std::make_unique<CharacterSplit>(unicode::kWhiteSpace, Delimiters::kRemoved));
  parts.push_back(std::make_unique<CharacterSplit>(unicode::kPunctuation, Delimiters::kIsolated));
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const json& component, const std::string& place,
                                                 bool before_words) {
  const auto type = get<std::string>(component, "type", place);
  if (type == "Sequence") return make_sequence(component, place, before_words);
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevel>(before_words || get_or(component, "add_prefix_space", true, place),
                                       get_or(component, "use_regex", true, place));
  }
  if (type == "Metaspace") return make_metaspace(component, place);
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") {
    return std::make_unique<CharacterSplit>(unicode::kWhiteSpace, Delimiters::kRemoved);
  }
  if (type == "Punctuation") {
    return std::make_unique<CharacterSplit>(unicode::kPunctuation,
                                            parse_behavior(component, "Isolated", place));
  }
  if (type == "Digits") {
    const bool each = get_or(component, "individual_digits", false, place);
    return std::make_unique<CharacterSplit>(unicode::kNumeric,
                                            each ? Delimiters::kIsolated : Delimiters::kContiguous);
  }
  if (type == "Split") {
    return std::make_unique<PatternSplit>(parse_pattern(component, place),
                                          parse_behavior(component, "Isolated", place),
                                          get_or(component, "invert", false, place));
  }
  if (type == "BertPreTokenizer") return make_bert();
  fail_at(place, "'" + type + "'",
          "one of the pre-tokenizers that are supported: Sequence, ByteLevel, Metaspace, Whitespace, "
          "WhitespaceSplit, Punctuation, Digits, Split, BertPreTokenizer");
}

}  // namespace finetune
