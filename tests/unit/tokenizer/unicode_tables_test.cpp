#include "../../../src/tokenizer/unicode_tables.h"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <string>
#include <vector>

#include "../../../src/tokenizer/bert_normalizer.h"
#include "../../../src/tokenizer/bert_splitter.h"
#include "../../../src/tokenizer/utf8.h"

namespace finetune {
namespace {

constexpr uint32_t kEnd = 0x110000;

bool is_surrogate(uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

/// In Unicode 9 already, the age of the reference's oldest table: there the two must agree.
bool is_old(uint32_t c) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && age[0] <= 8;
}

TEST(UnicodeTables, DecomposeAsIcuDoes) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  ASSERT_TRUE(U_SUCCESS(status));
  int decomposed = 0;
  for (uint32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c)) continue;
    uint32_t parts[unicode::kMaxDecomposition];
    const size_t count = unicode::decompose(c, parts);
    icu::UnicodeString ours;
    for (size_t i = 0; i < count; ++i) ours.append(static_cast<UChar32>(parts[i]));
    const icu::UnicodeString theirs = nfd->normalize(icu::UnicodeString(static_cast<UChar32>(c)), status);
    decomposed += count > 1;
    // A character younger than the reference's table stays whole there.
    if (count == 1 && parts[0] == c && !is_old(c)) continue;
    ASSERT_TRUE(ours == theirs) << std::hex << c;
  }
  EXPECT_GT(decomposed, 11172) << "more than the Hangul syllables";
}

TEST(UnicodeTables, OrderMarksAsIcuDoes) {
  for (uint32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c) || !is_old(c)) continue;
    uint32_t parts[unicode::kMaxDecomposition];
    if (unicode::decompose(c, parts) != 1 || parts[0] != c) continue;
    ASSERT_EQ(unicode::combining_class(c), u_getCombiningClass(static_cast<UChar32>(c))) << std::hex << c;
  }
}

TEST(UnicodeTables, KnowTheCharactersOnWhichIcuIsOlderOrYounger) {
  EXPECT_TRUE(unicode::is_stripped_mark(0x0301));
  EXPECT_FALSE(unicode::is_stripped_mark(0x08D3))
      << "a mark since Unicode 11, which the reference does not know";
  EXPECT_TRUE(unicode::is_punctuation('$')) << "BERT takes ASCII symbols for punctuation";
  EXPECT_FALSE(unicode::is_punctuation(0x20AC)) << "but no other symbols";
  EXPECT_FALSE(unicode::is_punctuation(0x2E52)) << "punctuation since Unicode 14";
  EXPECT_FALSE(unicode::is_removed(0x0378)) << "unassigned characters stay";
  EXPECT_TRUE(unicode::is_removed(0xE000));
  EXPECT_FALSE(unicode::is_chinese(0x2B820)) << "the reference leaves out a part of extension E";
  EXPECT_TRUE(unicode::is_word_character(0x203F));
  uint32_t lowered[unicode::kMaxDecomposition];
  ASSERT_EQ(unicode::lower_case(0x130, lowered), 2u);
  EXPECT_EQ(lowered[1], 0x307u);
}

/// The words that the table walk makes of one code point between two letters.
std::vector<std::string> words_by_table(const CharacterMap& map, uint32_t c) {
  std::vector<std::string> words = {"a"};
  std::string bytes;
  append_utf8(c, bytes);
  char jamo[12];
  switch (map.action(c)) {
    case CharacterAction::kKeep:
      words.back() += bytes;
      break;
    case CharacterAction::kReplace:
      words.back() += map.replacement(c).bytes;
      break;
    case CharacterAction::kHangul:
      words.back().append(jamo, encode_jamo(c, jamo));
      break;
    case CharacterAction::kDrop:
      break;
    case CharacterAction::kBreak:
      words.emplace_back();
      break;
    case CharacterAction::kIsolate:
      words.insert(words.end(), {bytes, ""});
      break;
    case CharacterAction::kReplaceAndIsolate:
      words.insert(words.end(), {std::string(map.replacement(c).bytes), ""});
      break;
    case CharacterAction::kInContext:
      return {};
  }
  words.back() += "b";
  return words;
}

class CharacterMapTest : public ::testing::TestWithParam<BertNormalizerOptions> {};

TEST_P(CharacterMapTest, SaysWhatTheStepByStepWayDoes) {
  const CharacterMap map(GetParam());
  int in_context = 0;
  for (uint32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c)) continue;
    const std::vector<std::string> words = words_by_table(map, c);
    if (words.empty()) {
      ++in_context;
      continue;
    }
    std::string text = "a";
    append_utf8(c, text);
    const NormalizedText normalized = normalize_bert(text + "b", 0, GetParam());
    std::vector<std::string> expected;
    SplitWord word;
    for (BertSplitter splitter(normalized.text, 0, normalized.text.size()); splitter.next(word);) {
      expected.push_back(normalized.text.substr(word.begin, word.end - word.begin));
    }
    ASSERT_EQ(words, expected) << std::hex << c;
  }
  EXPECT_LT(in_context, 300) << "the slow way is for rare characters";
}

INSTANTIATE_TEST_SUITE_P(Settings, CharacterMapTest,
                         ::testing::Values(BertNormalizerOptions{},
                                           BertNormalizerOptions{true, true, {}, false},
                                           BertNormalizerOptions{true, true, false, true},
                                           BertNormalizerOptions{true, false, true, false},
                                           BertNormalizerOptions{false, true, {}, true},
                                           BertNormalizerOptions{false, false, false, false}));

}  // namespace
}  // namespace finetune
