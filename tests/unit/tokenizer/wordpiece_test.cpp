#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "../../../src/tokenizer/piece_trie.h"
#include "../../../src/tokenizer/utf8.h"
#include "finetune/core/error.h"
#include "tokenizer_test_support.h"

namespace finetune {
namespace {

using testing::bert_vocabulary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ids_of;
using testing::lines;
using testing::LogCapture;
using testing::TemporaryDirectory;

/// A model directory of a vocabulary and a tokenizer_config.json.
std::unique_ptr<Tokenizer> make_tokenizer(const std::vector<std::string>& pieces,
                                          const std::string& config = "{}") {
  const TemporaryDirectory model;
  model.write("vocab.txt", bert_vocabulary(pieces));
  model.write("tokenizer_config.json", config);
  return load_tokenizer(model.path());
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const int32_t id : tokenizer.encode_plain(text).input_ids) tokens.push_back(tokenizer.id_to_token(id));
  return tokens;
}

TEST(PieceTrie, FindsTheLongestKey) {
  const PieceTrie trie({{"a", 1}, {"ab", 2}, {"abcd", 3}, {"##b", 4}, {"\xE4\xB8\xAD", 5}});
  EXPECT_EQ(trie.longest_prefix("abc").value, 2);
  EXPECT_EQ(trie.longest_prefix("abc").length, 2u);
  EXPECT_EQ(trie.longest_prefix("abcde").value, 3);
  EXPECT_EQ(trie.longest_prefix("b").value, -1);
  EXPECT_EQ(trie.longest_prefix("b", trie.node("##")).value, 4);
  EXPECT_EQ(trie.longest_prefix("\xE4\xB8\xAD!").value, 5);
  EXPECT_EQ(trie.node("x"), PieceTrie::kNowhere);
}

TEST(PieceTrie, HoldsEveryKeyOfALargeSet) {
  std::mt19937 random(3);
  std::vector<std::string> keys;
  for (int i = 0; i < 20000; ++i) {
    std::string key = std::to_string(i) + ":";
    for (int n = static_cast<int>(random() % 6); n > 0; --n) key += static_cast<char>(random() % 256);
    keys.push_back("k" + key + "/");
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = 0; i < keys.size(); ++i) entries.emplace_back(keys[i], static_cast<int32_t>(i));
  const PieceTrie trie(entries);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(trie.longest_prefix(keys[i] + "rest").value, static_cast<int32_t>(i));
  }
}

TEST(WordPiece, TakesTheLongestPieceAndGivesUpOnAWordItCannotCover) {
  const auto tokenizer = make_tokenizer({"un", "##aff", "##able", "##a", "unaffx"});
  EXPECT_THAT(tokens_of(*tokenizer, "unaffable"), ElementsAre("un", "##aff", "##able"));
  EXPECT_THAT(tokens_of(*tokenizer, "unaffz una"), ElementsAre("[UNK]", "un", "##a"));
}

TEST(WordPiece, AWordOfOver100CharactersIsUnknown) {
  const auto tokenizer = make_tokenizer({"a", "##a", "é", "##é"}, R"({"strip_accents": false})");
  EXPECT_EQ(tokens_of(*tokenizer, std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(tokens_of(*tokenizer, std::string(101, 'a')), ElementsAre("[UNK]"));
  std::string accented;
  for (int i = 0; i < 100; ++i) accented += "é";
  EXPECT_EQ(tokens_of(*tokenizer, accented).size(), 100u) << "characters count, not bytes";
  EXPECT_EQ(ids_of(*tokenizer, std::string(5000, 'a') + " a"),
            ids_of(*tokenizer, std::string(101, 'a') + " a"));
}

TEST(WordPiece, FindsSpecialTokensInTheText) {
  const auto tokenizer = make_tokenizer({"a", "[", "]", "sep"});
  EXPECT_EQ(ids_of(*tokenizer, "a[SEP]a"), (std::vector<int32_t>{2, 5, 3, 5, 3}));
  EXPECT_THAT(tokens_of(*tokenizer, "[sep]"), ElementsAre("[", "sep", "]"));
  EXPECT_EQ(tokenizer->encode_plain("a[SEP]a").offsets[1], (ByteSpan{1, 6}));
  const auto whole = make_tokenizer({"a", "[", "]", "sep"}, R"({"split_special_tokens": true})");
  EXPECT_THAT(tokens_of(*whole, "[SEP]"), ElementsAre("[", "sep", "]"));
}

TEST(WordPiece, AddedTokensKeepTheirProperties) {
  const auto tokenizer = make_tokenizer({"a", "b", "x"}, R"({"added_tokens_decoder": {
      "8": {"content": "<w>", "single_word": true, "normalized": false},
      "9": {"content": "<l>", "lstrip": true, "normalized": false},
      "10": {"content": "<r>", "rstrip": true, "normalized": false},
      "11": {"content": "Foo Bar", "normalized": true}}})");
  const auto id = [&](const char* token) { return tokenizer->token_to_id(token).value(); };
  EXPECT_EQ(id("<w>"), 8);
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  EXPECT_THAT(tokens_of(*tokenizer, "a <w>!"), ElementsAre("a", "<w>", "[UNK]"));
  EXPECT_THAT(tokens_of(*tokenizer, "a<w>"), ElementsAre("a", "[UNK]", "[UNK]", "[UNK]"));
  EXPECT_EQ(tokenizer->encode_plain("a \u3000<l> b").offsets[1], (ByteSpan{1, 8}));
  EXPECT_EQ(tokenizer->encode_plain("a<r>  b").offsets[1], (ByteSpan{1, 6}));
  EXPECT_THAT(tokens_of(*tokenizer, "FOO bär"), ElementsAre("Foo Bar"));
}

TEST(WordPiece, NewTokensAreNumberedFromTheEnd) {
  const TemporaryDirectory model;
  model.write("vocab.txt", lines({"[UNK]", "[PAD]", "[SEP]", "a"}));
  const LogCapture log;
  const auto tokenizer = load_tokenizer(model.path());
  EXPECT_EQ(tokenizer->token_to_id("[CLS]"), 4);
  EXPECT_EQ(tokenizer->token_to_id("[MASK]"), 5);
  EXPECT_EQ(tokenizer->pad_id(), 1);
  EXPECT_EQ(ids_of(*tokenizer, "a"), (std::vector<int32_t>{4, 3, 2}));
  EXPECT_THAT(log.text(), HasSubstr("cls_token '[CLS]' is not in vocab.txt and gets the new id 4"));
}

TEST(WordPiece, ReadsVocabularyLinesAsPythonDoes) {
  const TemporaryDirectory model;
  model.write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\n[MASK]\na\rb\na");
  const auto tokenizer = load_tokenizer(model.path());
  EXPECT_EQ(tokenizer->token_to_id("b"), 6);
  EXPECT_EQ(tokenizer->token_to_id("a"), 7) << "of two lines the last counts";
}

TEST(WordPiece, CutsTheBeginningWhereTheModelSaysSo) {
  const auto tokenizer = make_tokenizer({"a", "b", "c", "d"}, R"({"truncation_side": "left"})");
  EXPECT_EQ(ids_of(*tokenizer, "a b c d", std::nullopt, {.max_length = 4}),
            (std::vector<int32_t>{2, 7, 8, 3}));
  std::vector<int32_t> ids;
  const RowShape shape = tokenizer->append("a b c d", "a b", {.max_length = 6}, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 7, 8, 3, 6, 3})) << "the longer text keeps the odd token";
  EXPECT_EQ(shape.second_segment, 4);
  EXPECT_TRUE(shape.truncated);
}

TEST(WordPiece, EncodesWordIdsAndSequences) {
  const auto tokenizer = make_tokenizer({"a", "##b", "c"});
  const Encoding encoding = tokenizer->encode("ab c", "c", {});
  EXPECT_THAT(encoding.word_ids, ElementsAre(-1, 0, 0, 1, -1, 0, -1));
  EXPECT_THAT(encoding.sequence_ids, ElementsAre(-1, 0, 0, 0, -1, 1, -1));
  EXPECT_THAT(encoding.token_type_ids, ElementsAre(0, 0, 0, 0, 0, 1, 1));
  EXPECT_FALSE(encoding.truncated);
}

TEST(WordPiece, AppendsBehindWhatIsThere) {
  const auto tokenizer = make_tokenizer({"a"});
  std::vector<int32_t> ids = {7};
  const RowShape shape = tokenizer->append("a a", std::nullopt, {}, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 2, 5, 5, 3}));
  EXPECT_EQ(shape.num_tokens, 4);
  EXPECT_EQ(shape.second_segment, 4) << "no second segment";
}

TEST(WordPiece, TheFingerprintChangesWithEverySetting) {
  const std::vector<std::string> configs = {"{}",
                                            R"({"do_lower_case": false})",
                                            R"({"strip_accents": false})",
                                            R"({"tokenize_chinese_chars": false})",
                                            R"({"truncation_side": "left"})",
                                            R"({"split_special_tokens": true})",
                                            R"({"cls_token": "a"})",
                                            R"({"additional_special_tokens": ["a"]})"};
  std::set<std::string> fingerprints;
  for (const std::string& config : configs) fingerprints.insert(make_tokenizer({"a"}, config)->fingerprint());
  fingerprints.insert(make_tokenizer({"b"})->fingerprint());
  EXPECT_EQ(fingerprints.size(), configs.size() + 1);
  EXPECT_EQ(make_tokenizer({"a"})->fingerprint(), make_tokenizer({"a"})->fingerprint());
}

TEST(WordPiece, ASavedTokenizerIsTheSame) {
  const auto tokenizer = make_tokenizer({"a", "b"}, R"({"do_lower_case": false, "model_max_length": 77,
      "mask_token": {"__type": "AddedToken", "content": "[MASK]", "lstrip": true, "special": true},
      "additional_special_tokens": ["<x>"], "topic_token": "<t>", "truncation_side": "left"})");
  const TemporaryDirectory saved;
  tokenizer->save(saved.path() / "model");
  const LogCapture log;
  const auto reloaded = load_tokenizer(saved.path() / "model");
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ(reloaded->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(ids_of(*reloaded, "a [MASK] <x> <t> B"), ids_of(*tokenizer, "a [MASK] <x> <t> B"));
  const Json config = testing::read_json(saved.path() / "model" / "tokenizer_config.json");
  EXPECT_EQ(config["model_max_length"], 77);
  EXPECT_EQ(config["tokenizer_class"], "BertTokenizer");
  for (const char* name : {"vocab.txt", "special_tokens_map.json"}) {
    EXPECT_TRUE(std::filesystem::exists(saved.path() / "model" / name)) << name;
  }
  std::filesystem::remove(saved.path() / "model" / "tokenizer.json");
  EXPECT_EQ(load_tokenizer(saved.path() / "model")->fingerprint(), tokenizer->fingerprint());
}

TEST(WordPiece, SavesTheClassOfTheFamily) {
  const TemporaryDirectory model, saved;
  model.write("vocab.txt", bert_vocabulary({"a"}));
  model.write("config.json", R"({"model_type": "distilbert"})");
  load_tokenizer(model.path())->save(saved.path());
  EXPECT_EQ(testing::read_json(saved.path() / "tokenizer_config.json")["tokenizer_class"],
            "DistilBertTokenizer");
}

TEST(WordPiece, TakesTokenizerJsonAsItIsWhereTheClassSaysSo) {
  const TemporaryDirectory model;
  model.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "p"})");
  model.write("tokenizer.json", R"({"version": "1.0", "truncation": {"max_length": 3}, "padding": null,
      "added_tokens": [{"id": 4, "content": "+", "normalized": false}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer", "lowercase": false,
          "clean_text": false, "handle_chinese_chars": true, "strip_accents": null}]},
      "pre_tokenizer": {"type": "BertPreTokenizer"},
      "post_processor": {"type": "BertProcessing", "sep": ["u", 0], "cls": ["p", 3]},
      "model": {"type": "WordPiece", "unk_token": "u", "continuing_subword_prefix": "", "max_input_chars_per_word": 3,
          "vocab": {"u": 0, "a": 1, "B": 2, "p": 3}}})");
  const auto tokenizer = load_tokenizer(model.path());
  EXPECT_EQ(ids_of(*tokenizer, "aB+ aaaa b"), (std::vector<int32_t>{3, 1, 2, 4, 0, 0, 0}));
  EXPECT_EQ(tokenizer->pad_id(), 3);
  const TemporaryDirectory saved;
  tokenizer->save(saved.path());
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {"[SEP]",
                                                  "[MASK]",
                                                  "<x>",
                                                  "Foo",
                                                  " ",
                                                  " ",
                                                  "\n",
                                                  "中",
                                                  "창",
                                                  "é",
                                                  "\u302e",
                                                  "\U0001D165\U0001D16D",
                                                  "a\u0301",
                                                  "\u0345",
                                                  "İ",
                                                  "ab",
                                                  "##",
                                                  "\u2126",
                                                  "foofoo",
                                                  "ABCDEFG",
                                                  "foo45678",
                                                  "foofoo789",
                                                  "Abcdefgh1234567",
                                                  "Abcdefgh12345678",
                                                  "abcdefgh123456789"};
  std::string text;
  for (int n = static_cast<int>(random() % 24); n > 0; --n) {
    if (random() % 3 == 0) {
      text += kParts[random() % kParts.size()];
      continue;
    }
    const uint32_t bound = random() % 2 == 0 ? 0x80 : random() % 2 == 0 ? 0x3000 : 0x110000;
    const uint32_t c = static_cast<uint32_t>(random()) % bound;
    append_utf8(c >= 0xD800 && c <= 0xDFFF ? 'q' : c, text);
  }
  return text;
}

class WordPieceWays : public ::testing::TestWithParam<std::string> {};

TEST_P(WordPieceWays, GiveTheSameIds) {
  std::vector<std::string> pieces = {"foo", "##oo", "中", "##中", "\u1112\u1161", "<x>"};
  for (char c = '!'; c <= '~'; ++c) {
    pieces.push_back(std::string(1, c));
    pieces.push_back("##" + std::string(1, c));
  }
  const auto tokenizer = make_tokenizer(pieces, GetParam());
  const auto encoder = tokenizer->row_encoder();
  std::mt19937 random(17);
  for (int i = 0; i < 4000; ++i) {
    const std::string first = random_text(random), second = random_text(random);
    const std::optional<std::string_view> pair =
        random() % 2 == 0 ? std::nullopt : std::optional<std::string_view>(second);
    const EncodeOptions options = {3 + static_cast<int64_t>(random() % 40),
                                   TruncationStrategy::kLongestFirst};
    std::vector<int32_t> ids;
    const RowShape shape = tokenizer->append(first, pair, options, ids);
    const Encoding encoding = tokenizer->encode(first, pair, options);
    ASSERT_EQ(ids, encoding.input_ids) << first << "|" << second;
    std::vector<int32_t> again;
    ASSERT_EQ(encoder->append(first, pair, options, again).truncated, shape.truncated);
    ASSERT_EQ(again, ids) << first << "|" << second;
    ASSERT_EQ(shape.truncated, encoding.truncated) << first << "|" << second;
    ASSERT_LE(shape.num_tokens, options.max_length);
    for (size_t t = 0; t < ids.size(); ++t) {
      ASSERT_EQ(encoding.token_type_ids[t] == 1, static_cast<int64_t>(t) >= shape.second_segment);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, WordPieceWays,
    ::testing::Values(
        "{}", R"({"do_lower_case": false})", R"({"strip_accents": false})",
        R"({"tokenize_chinese_chars": false, "strip_accents": true, "do_lower_case": false})",
        R"({"truncation_side": "left"})",
        R"({"added_tokens_decoder": {"300": {"content": "Foo", "normalized": true, "rstrip": true}}})"));

TEST(WordPiece, AnEncoderDoesNotMixUpTheWordsItRemembers) {
  std::vector<std::string> pieces;
  for (char c = 'a'; c <= 'z'; ++c) {
    pieces.push_back(std::string(1, c));
    pieces.push_back("##" + std::string(1, c));
    pieces.push_back(std::string("##") + c + c);
  }
  const auto tokenizer = make_tokenizer(pieces);
  const auto encoder = tokenizer->row_encoder();
  std::mt19937 random(5);
  for (int i = 0; i < 60000; ++i) {
    std::string word;
    for (size_t length = 1 + random() % 17; word.size() < length;)
      word += static_cast<char>('a' + random() % 4);
    std::vector<int32_t> ids;
    encoder->append(word, std::nullopt, {}, ids);
    ASSERT_EQ(ids, ids_of(*tokenizer, word)) << word;
  }
}

TEST(WordPiece, BytesThatAreNotUtf8AreDroppedWithoutHarm) {
  const auto tokenizer = make_tokenizer({"a", "##b"});
  EXPECT_EQ(ids_of(*tokenizer,
                   "a\xFF\xC3"
                   "b"),
            ids_of(*tokenizer, "ab"));
  EXPECT_EQ(ids_of(*tokenizer, "a\xE4\xB8"), ids_of(*tokenizer, "a"));
}

}  // namespace
}  // namespace finetune
