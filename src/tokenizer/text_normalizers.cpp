#include "text_normalizers.h"

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base64.h"
#include "charsmap.h"
#include "json_access.h"
#include "regex_pattern.h"
#include "tokenizer_json.h"
#include "unicode_normalizer.h"
#include "unicode_tables.h"

namespace finetune {
namespace {

using nlohmann::json;

class Sequence : public TextNormalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<TextNormalizer>> parts) : parts_(std::move(parts)) {}
  void normalize(AlignedText& text) const override {
    for (const auto& part : parts_) part->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<TextNormalizer>> parts_;
};

class UnicodeForm : public TextNormalizer {
 public:
  explicit UnicodeForm(NormalizationForm form) : form_(form) {}
  void normalize(AlignedText& text) const override { normalize_unicode(text, form_); }

 private:
  NormalizationForm form_;
};

class Lowercase : public TextNormalizer {
 public:
  void normalize(AlignedText& text) const override {
    AlignedText lowered{{}, text.tracked, text.origin};
    lowered.text.reserve(text.text.size());
    uint32_t targets[unicode::kMaxDecomposition];
    for (size_t position = 0; position < text.text.size();) {
      const DecodedCodePoint decoded = decode_utf8(text.text, position);
      const size_t count = unicode::lower_case(decoded.code_point, targets);
      const ByteSpan span = text.span_at(position);
      for (size_t i = 0; i < count; ++i) {
        char bytes[4];
        lowered.append({bytes, encode_utf8(targets[i], bytes)}, span);
      }
      position += decoded.length;
    }
    text = std::move(lowered);
  }
};

class StripAccents : public TextNormalizer {
 public:
  void normalize(AlignedText& text) const override {
    if (is_ascii(text.text)) return;
    remove_characters(text, [](uint32_t code_point) {
      return (unicode::character_class(code_point) & unicode::kCombiningMark) != 0;
    });
  }
};

class Strip : public TextNormalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void normalize(AlignedText& text) const override {
    size_t begin = 0, end = text.text.size();
    while (right_ && end > 0) {
      const size_t start = previous_code_point(text.text, end);
      if (!unicode::is_white_space(decode_utf8(text.text, start).code_point)) break;
      end = start;
    }
    while (left_ && begin < end) {
      const DecodedCodePoint decoded = decode_utf8(text.text, begin);
      if (!unicode::is_white_space(decoded.code_point)) break;
      begin += decoded.length;
    }
    if (end - begin == text.text.size()) return;
    AlignedText kept{{}, text.tracked, text.origin};
    kept.append(text, begin, end);
    text = std::move(kept);
  }

 private:
  bool left_, right_;
};

class Replace : public TextNormalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void normalize(AlignedText& text) const override {
    const std::vector<PatternPart> parts = pattern_.parts(text.text);
    if (parts.empty() || (parts.size() == 1 && !parts[0].is_match)) return;
    AlignedText replaced{{}, text.tracked, text.origin};
    for (const PatternPart& part : parts) {
      if (part.is_match) {
        replaced.append(content_, text.span_before(part.end));
      } else {
        replaced.append(text, part.begin, part.end);
      }
    }
    text = std::move(replaced);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend : public TextNormalizer {
 public:
  explicit Prepend(std::string content) : content_(std::move(content)) {}
  void normalize(AlignedText& text) const override {
    if (text.text.empty()) return;
    AlignedText longer{{}, text.tracked, text.origin};
    longer.append(content_, text.span_at(0));
    longer.append(text, 0, text.text.size());
    text = std::move(longer);
  }

 private:
  std::string content_;
};

class Precompiled : public TextNormalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void normalize(AlignedText& text) const override { map_.normalize(text); }

 private:
  Charsmap map_;
};

class Bert : public TextNormalizer {
 public:
  explicit Bert(const BertNormalizerOptions& options) : options_(options) {}
  void normalize(AlignedText& text) const override {
    NormalizedText normalized = normalize_bert(text.text, 0, options_);
    for (ByteSpan& span : normalized.alignment) {
      const auto begin = static_cast<size_t>(span.begin), end = static_cast<size_t>(span.end);
      span =
          begin < end ? ByteSpan{text.span_at(begin).begin, text.span_before(end).end} : text.span_before(0);
    }
    text.text = std::move(normalized.text);
    if (text.tracked) text.alignment = std::move(normalized.alignment);
  }

 private:
  BertNormalizerOptions options_;
};

std::unique_ptr<TextNormalizer> make_precompiled(const json& component, const std::string& place) {
  const auto encoded = get<std::string>(component, "precompiled_charsmap", place);
  try {
    const auto bytes = decode_base64(encoded);
    if (!bytes)
      fail_at(place + "/precompiled_charsmap", "text that is not base64", "a character map in base64");
    return std::make_unique<Precompiled>(Charsmap(*bytes));
  } catch (const std::invalid_argument& error) {
    fail_at(place + "/precompiled_charsmap", error.what(), "an undamaged one; copy the file anew");
  }
}

std::unique_ptr<TextNormalizer> make_sequence(const json& component, const std::string& place) {
  std::vector<std::unique_ptr<TextNormalizer>> parts;
  size_t number = 0;
  for (const json& part : member(component, "normalizers", place)) {
    parts.push_back(make_normalizer(part, place + "/normalizers/" + std::to_string(number++)));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<TextNormalizer> make_bert(const json& component, const std::string& place) {
  return std::make_unique<Bert>(parse_bert_normalizer(component, place));
}

}  // namespace

TextPattern parse_pattern(const json& component, const std::string& place) {
  const json& pattern = member(component, "pattern", place);
  if (pattern.is_object() && pattern.contains("String")) {
    return TextPattern::literal(get<std::string>(pattern, "String", place + "/pattern"));
  }
  const auto expression = get<std::string>(pattern, "Regex", place + "/pattern");
  try {
    return TextPattern::regex(expression);
  } catch (const std::invalid_argument& error) {
    fail_at(place + "/pattern/Regex", "'" + expression + "' (" + error.what() + ")",
            "a regular expression that ICU understands");
  }
}

std::unique_ptr<TextNormalizer> make_normalizer(const json& component, const std::string& place) {
  const auto type = get<std::string>(component, "type", place);
  if (type == "Sequence") return make_sequence(component, place);
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalizationForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalizationForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalizationForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalizationForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") {
    return std::make_unique<Strip>(get<bool>(component, "strip_left", place),
                                   get<bool>(component, "strip_right", place));
  }
  if (type == "Replace") {
    return std::make_unique<Replace>(parse_pattern(component, place),
                                     get<std::string>(component, "content", place));
  }
  if (type == "Prepend") return std::make_unique<Prepend>(get<std::string>(component, "prepend", place));
  if (type == "Precompiled") return make_precompiled(component, place);
  if (type == "BertNormalizer") return make_bert(component, place);
  fail_at(
      place, "'" + type + "'",
      "one of the normalisers that are supported: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
      "Strip, Replace, Prepend, Precompiled, BertNormalizer");
}

}  // namespace finetune
