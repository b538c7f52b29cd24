#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tokenizer/base64.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/grapheme.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/text_normalizers.h"
#include "tokenizer/unigram_model.h"

namespace finetune {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

AlignedText aligned(const std::string& text) { return make_aligned(text, 0, text.size(), true); }

std::string normalized(const json& component, const std::string& text) {
  AlignedText result = aligned(text);
  make_normalizer(component, "test")->normalize(result);
  EXPECT_EQ(result.alignment.size(), result.text.size());
  AlignedText untracked = make_aligned(text, 0, text.size(), false);
  make_normalizer(component, "test")->normalize(untracked);
  EXPECT_EQ(untracked.text, result.text);
  return result.text;
}

Texts split(const json& component, const std::string& text) {
  SplitText words{aligned(text), {{0, text.size()}}};
  make_pre_tokenizer(component, "test")->split(words);
  Texts texts;
  for (const auto& [begin, end] : words.words) texts.push_back(words.text.text.substr(begin, end - begin));
  return texts;
}

Texts clusters(const std::string& text) {
  Texts parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = grapheme_end(text, begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

TEST(Grapheme, KeepsTogetherWhatTheStandardKeepsTogether) {
  EXPECT_THAT(clusters("a\u0301b"), ElementsAre("a\u0301", "b"));
  EXPECT_THAT(clusters("\r\n\r"), ElementsAre("\r\n", "\r"));
  EXPECT_THAT(clusters("\n\u0301"), ElementsAre("\n", "\u0301"));
  EXPECT_THAT(clusters("\u1100\u1161\u11A8\u1100"), ElementsAre("\u1100\u1161\u11A8", "\u1100"));
  EXPECT_THAT(clusters("\uAC01\u11A8\u1161"), ElementsAre("\uAC01\u11A8", "\u1161"));
  EXPECT_THAT(clusters("\u00A9\u0301\u200D\u00A9x"), ElementsAre("\u00A9\u0301\u200D\u00A9", "x"));
  EXPECT_THAT(clusters("a\u200D\u00A9"), ElementsAre("a\u200D", "\u00A9"));
  EXPECT_THAT(clusters("\u0915\u094D\u0915"), ElementsAre("\u0915\u094D\u0915"));
  EXPECT_THAT(clusters("\u0915\u0915"), ElementsAre("\u0915", "\u0915"));
  EXPECT_THAT(clusters("\u0600a"), ElementsAre("\u0600a"));
}

TEST(Normalizers, ComposeAndDecompose) {
  EXPECT_EQ(normalized({{"type", "NFC"}}, "e\u0301 \u1100\u1161\u11A8 a\u0315\u0300"),
            "\u00E9 \uAC01 \u00E0\u0315");
  EXPECT_EQ(normalized({{"type", "NFD"}}, "\u00E9\uAC01"), "e\u0301\u1100\u1161\u11A8");
  EXPECT_EQ(normalized({{"type", "NFKC"}}, "\uFB01\u00BD"), "fi1\u20442");
  EXPECT_EQ(normalized({{"type", "NFKD"}}, "\u212B"), "A\u030A");
  EXPECT_EQ(normalized({{"type", "NFC"}}, "\u0958"), "\u0915\u093C") << "an excluded composition";
}

TEST(Normalizers, ChangeText) {
  EXPECT_EQ(normalized({{"type", "Lowercase"}}, "A\u0130\u00C4"), "ai\u0307\u00E4");
  EXPECT_EQ(normalized({{"type", "StripAccents"}}, "e\u0301x"), "ex");
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "\u3000 a "), "a ");
  EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"String", "``"}}}, {"content", "\""}}, "``a``"),
            "\"a\"");
  EXPECT_EQ(
      normalized({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}|\\d"}}}, {"content", "_"}}, "a   b1"),
      "a_b_");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "\u2581"}}, "a"), "\u2581a");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "\u2581"}}, ""), "");
}

TEST(Normalizers, KnowWhereTheirTextCameFrom) {
  AlignedText text = aligned("\uFB01e\u0301");
  make_normalizer({{"type", "NFKC"}}, "test")->normalize(text);
  ASSERT_EQ(text.text, "fi\u00E9");
  EXPECT_THAT(text.alignment, ElementsAre(ByteSpan{0, 3}, ByteSpan{0, 3}, ByteSpan{3, 4}, ByteSpan{3, 4}));
}

/// A map of "a" to "b" and of "\u00E9" to nothing.
std::string small_charsmap() {
  std::vector<uint32_t> units(0x300);
  const auto put = [&](uint32_t from, uint8_t byte, uint32_t offset, bool leaf) {
    units[from ^ byte] = offset << 10 | (leaf ? 1u << 8 : 0u) | byte;
  };
  units[0] = 0x100 << 10;
  put(0x100, 'a', (0x100 ^ 'a') ^ 0x200, true);
  units[0x200] = 0;
  put(0x100, 0xC3, (0x100 ^ 0xC3) ^ 0x280, false);
  put(0x280, 0xA9, (0x280 ^ 0xA9) ^ 0x201, true);
  units[0x201] = 2;
  std::string bytes(4 + 4 * units.size(), '\0');
  const auto size = static_cast<uint32_t>(4 * units.size());
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + std::string("b\0\0", 3);
}

TEST(Charsmap, ReplacesShortClustersAsAWhole) {
  const Charsmap map(small_charsmap());
  const auto apply = [&](const std::string& text) {
    AlignedText result = aligned(text);
    map.normalize(result);
    return result.text;
  };
  EXPECT_EQ(apply("xay"), "xby");
  EXPECT_EQ(apply("\u00E9x"), "x");
  EXPECT_EQ(apply("a\u0301x"), "bx") << "a mark goes with the letter";
  EXPECT_EQ(apply("a\u0301\u0302\u0303x"), "b\u0301\u0302\u0303x") << "seven bytes go one by one";
}

TEST(Charsmap, RefusesDamage) {
  EXPECT_THROW(Charsmap("abc"), std::invalid_argument);
  EXPECT_THROW(Charsmap(std::string("\xFF\xFF\0\0aaaa", 8)), std::invalid_argument);
  EXPECT_THROW(Charsmap(std::string("\x04\0\0\0\0\0\0\0\xFF", 9)), std::invalid_argument);
}

Texts byte_level_words(const std::string& text) {
  Texts words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = byte_level_word_end(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(ByteLevel, CutsAsGpt2Does) {
  EXPECT_THAT(byte_level_words("don't they'LL"), ElementsAre("don", "'t", " they", "'", "LL"));
  EXPECT_THAT(byte_level_words("a  b   "), ElementsAre("a", " ", " b", "   "));
  EXPECT_THAT(byte_level_words("A1b \u00BD!?\n\nx"),
              ElementsAre("A", "1", "b", " \u00BD", "!?", "\n", "\n", "x"));
  EXPECT_THAT(byte_level_words(" 's\u3000\u00E9"), ElementsAre(" '", "s", "\u3000", "\u00E9"));
  EXPECT_EQ(byte_level_character(' '), "\u0120");
  EXPECT_EQ(byte_level_character('a'), "a");
  EXPECT_EQ(byte_level_character(0xAD), "\u0143");
}

TEST(PreTokenizers, Cut) {
  EXPECT_THAT(split({{"type", "WhitespaceSplit"}}, " a  b\u3000c "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split({{"type", "Whitespace"}}, "a_1?! b"), ElementsAre("a_1", "?!", "b"));
  EXPECT_THAT(split({{"type", "BertPreTokenizer"}}, "a,, b"), ElementsAre("a", ",", ",", "b"));
  EXPECT_THAT(split({{"type", "Digits"}}, "a12b3"), ElementsAre("a", "12", "b", "3"));
  EXPECT_THAT(split({{"type", "Digits"}, {"individual_digits", true}}, "a12"), ElementsAre("a", "1", "2"));
  const auto punctuation = [](const char* behavior) {
    return split({{"type", "Punctuation"}, {"behavior", behavior}}, "a..b.");
  };
  EXPECT_THAT(punctuation("Removed"), ElementsAre("a", "b"));
  EXPECT_THAT(punctuation("Isolated"), ElementsAre("a", ".", ".", "b", "."));
  EXPECT_THAT(punctuation("Contiguous"), ElementsAre("a", "..", "b", "."));
  EXPECT_THAT(punctuation("MergedWithPrevious"), ElementsAre("a.", ".", "b."));
  EXPECT_THAT(punctuation("MergedWithNext"), ElementsAre("a", ".", ".b", "."));
}

TEST(PreTokenizers, PutMarks) {
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  EXPECT_THAT(split(metaspace, "a  b"), ElementsAre("\u2581a", "\u2581", "\u2581b"));
  EXPECT_THAT(split(metaspace, " a"), ElementsAre("\u2581a"));
  EXPECT_THAT(split({{"type", "Metaspace"}, {"prepend_scheme", "never"}, {"split", false}}, "a b"),
              ElementsAre("a\u2581b"));
  EXPECT_THAT(split({{"type", "ByteLevel"}, {"add_prefix_space", true}}, "a \u00E9"),
              ElementsAre("\u0120a", "\u0120\u00C3\u00A9"));
  EXPECT_THAT(
      split({{"type", "Split"}, {"pattern", {{"Regex", "\\s+"}}}, {"behavior", "Removed"}}, "a \u3000b"),
      ElementsAre("a", "b"));
}

Texts pieces_of(const SubwordModel& model, const Vocabulary& vocabulary, const std::string& word) {
  std::vector<Piece> pieces;
  model.append(word, pieces);
  std::vector<Piece> again;
  model.append(word, again);  // from the cache
  Texts texts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    texts.push_back(vocabulary.token(pieces[i].id));
    EXPECT_EQ(pieces[i].begin, again[i].begin);
    EXPECT_EQ(pieces[i].id, again[i].id);
  }
  EXPECT_EQ(pieces.size(), again.size());
  return texts;
}

TEST(BpeModel, JoinsTheLowestRankThenTheLeftmost) {
  const Vocabulary vocabulary = Vocabulary::from_lines({"<unk>", "a", "b", "aa", "ab", "aab"});
  const BpeModel model(vocabulary, {{"a", "a"}, {"a", "b"}, {"a", "ab"}}, {.unk_token = "<unk>"});
  EXPECT_THAT(pieces_of(model, vocabulary, "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(pieces_of(model, vocabulary, "aab"), ElementsAre("aa", "b"));
  EXPECT_THAT(pieces_of(model, vocabulary, "axyb"), ElementsAre("a", "<unk>", "<unk>", "b"));
}

TEST(BpeModel, FusesUnknownCharactersOrSpellsTheirBytes) {
  const Vocabulary vocabulary = Vocabulary::from_lines({"<unk>", "a", "<0xC3>", "<0xA9>"});
  const BpeModel fusing(vocabulary, {}, {.unk_token = "<unk>", .fuse_unk = true});
  EXPECT_THAT(pieces_of(fusing, vocabulary, "xya"), ElementsAre("<unk>", "a"));
  const BpeModel spelling(vocabulary, {}, {.unk_token = "<unk>", .byte_fallback = true});
  EXPECT_THAT(pieces_of(spelling, vocabulary, "a\u00E9x"), ElementsAre("a", "<0xC3>", "<0xA9>", "<unk>"));
  const BpeModel dropping(vocabulary, {}, {});
  EXPECT_THAT(pieces_of(dropping, vocabulary, "xa"), ElementsAre("a"));
}

TEST(BpeModel, LongWordsTakeNoQuadraticTime) {
  const Vocabulary vocabulary = Vocabulary::from_lines({"a", "aa", "aaaa"});
  const BpeModel model(vocabulary, {{"a", "a"}, {"aa", "aa"}}, {});
  EXPECT_EQ(pieces_of(model, vocabulary, std::string(1 << 18, 'a')).size(), 1u << 16);
}

TEST(UnigramModel, OfEqualScoresTheFirstWayFoundWins) {
  const Vocabulary vocabulary = Vocabulary::from_lines({"<unk>", "a", "b", "ab", "ba"});
  const std::vector<double> scores = {0, -2, -2, -3, -3};
  const UnigramModel model(vocabulary, scores, 0, false);
  EXPECT_THAT(pieces_of(model, vocabulary, "aba"), ElementsAre("a", "ba"));
  EXPECT_THAT(pieces_of(model, vocabulary, "xyab"), ElementsAre("<unk>", "ab"));
}

TEST(Base64, GoesBothWays) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "\xFF\0\x80"}) {
    EXPECT_EQ(decode_base64(encode_base64(text)), text);
  }
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(decode_base64("Zg"), std::nullopt);
  EXPECT_EQ(decode_base64("Zg=!"), std::nullopt);
}

}  // namespace
}  // namespace finetune
