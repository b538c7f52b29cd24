#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "finetune/core/error.h"
#include "tokenizer_test_support.h"

namespace finetune {
namespace {

using testing::case_directory;
using testing::ids_of;
using testing::read_json;
using testing::TemporaryDirectory;
using Ids = std::vector<int32_t>;

const std::filesystem::path& byte_level_model() {
  static const std::filesystem::path kPath = case_directory("06-byte-bpe-words") / "model";
  return kPath;
}

/// The same model with settings of its own.
void copy_byte_level(const TemporaryDirectory& directory, const std::string& tokenizer_config) {
  for (const char* name : {"vocab.json", "merges.txt", "config.json"}) {
    std::filesystem::copy_file(byte_level_model() / name, directory.path() / name);
  }
  directory.write("tokenizer_config.json", tokenizer_config);
}

/// Code points before a byte.
int64_t characters_before(const std::string& text, int32_t byte) {
  return std::count_if(text.begin(), text.begin() + byte,
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

TEST(Case06ByteBpeWords, RawTextsGiveTheReferenceIdsAndOffsets) {
  const TemporaryDirectory with_prefix;
  copy_byte_level(with_prefix, R"({"add_prefix_space": true})");
  const auto plain = load_tokenizer(byte_level_model());
  const auto prefixed = load_tokenizer(with_prefix.path());
  for (const Json& row : read_json(byte_level_model().parent_path() / "expected.json")["raw_text"]) {
    const auto text = row["text"].get<std::string>();
    const auto& tokenizer = row["add_prefix_space"].get<bool>() ? prefixed : plain;
    const Encoding encoding = tokenizer->encode(text, std::nullopt, {});
    EXPECT_EQ(encoding.input_ids, row["ids"].get<Ids>()) << text;
    EXPECT_EQ(ids_of(*tokenizer, text), encoding.input_ids) << text;
    if (!row.contains("char_offsets")) continue;
    for (size_t i = 0; i < encoding.offsets.size(); ++i) {
      const ByteSpan span = encoding.offsets[i];
      const Json characters = {characters_before(text, span.begin), characters_before(text, span.end)};
      EXPECT_EQ(characters, row["char_offsets"][i]) << text << ", token " << i;
    }
  }
}

TEST(Case06ByteBpeWords, WordsOfAListAreReadWithABlankBefore) {
  const auto tokenizer = load_tokenizer(byte_level_model());
  for (const Json& row : read_json(byte_level_model().parent_path() / "expected.json")["pre_split_words"]) {
    if (!row["right_for_training"].get<bool>()) continue;
    const Encoding encoding = tokenizer->encode_words(row["words"].get<std::vector<std::string>>(), {});
    EXPECT_EQ(encoding.input_ids, row["ids"].get<Ids>());
    Ids word_ids;
    for (const Json& word : row["word_ids"]) word_ids.push_back(word.is_null() ? -1 : word.get<int32_t>());
    EXPECT_EQ(encoding.word_ids, word_ids);
    EXPECT_FALSE(encoding.truncated);
    const Encoding cut =
        tokenizer->encode_words(row["words"].get<std::vector<std::string>>(), {.max_length = 4});
    EXPECT_EQ(cut.input_ids.size(), 4u);
    EXPECT_EQ(cut.input_ids.back(), encoding.input_ids.back());
    EXPECT_TRUE(cut.truncated);
  }
}

TEST(Case06ByteBpeWords, PairsHaveTwoSeparatorsAndOneType) {
  const auto tokenizer = load_tokenizer(byte_level_model());
  for (const Json& row : read_json(byte_level_model().parent_path() / "expected.json")["pair"]) {
    if (row["add_prefix_space"].get<bool>()) continue;
    const auto text = row["text"].get<std::string>(), pair = row["pair"].get<std::string>();
    const Encoding encoding = tokenizer->encode(text, pair, {});
    EXPECT_EQ(encoding.input_ids, row["ids"].get<Ids>());
    EXPECT_THAT(encoding.token_type_ids, ::testing::Each(0));
    Ids ids;
    const RowShape shape = tokenizer->append(text, pair, {}, ids);
    EXPECT_EQ(ids, encoding.input_ids);
    EXPECT_EQ(shape.second_segment, shape.num_tokens);
  }
}

TEST(Case17RobertaPositionsAndTypes, GivesTheReferenceIds) {
  const auto directory = case_directory("17-roberta-positions-and-types");
  for (const auto& [name, model] : read_json(directory / "expected.json")["models"].items()) {
    const auto tokenizer = load_tokenizer(directory / name);
    EXPECT_EQ(tokenizer->pad_id(), model["pad_id"].get<int32_t>());
    for (const Json& row : model["rows"]) {
      const auto text = row["text"].get<std::string>();
      std::optional<std::string> pair;
      if (row.contains("pair")) pair = row["pair"].get<std::string>();
      EXPECT_EQ(tokenizer->encode(text, pair, {}).input_ids, row["ids"].get<Ids>()) << text;
    }
  }
}

TEST(PipelineTokenizer, CutsRowsAtEitherEnd) {
  const TemporaryDirectory left;
  copy_byte_level(left, R"({"truncation_side": "left"})");
  const std::string text = "the cat sat on the mat in paris", pair = "bob in paris";
  for (const auto& path : {byte_level_model(), left.path()}) {
    const auto tokenizer = load_tokenizer(path);
    const Ids whole = tokenizer->encode_plain(text).input_ids;
    for (int64_t max_length = 2; max_length < 12; ++max_length) {
      const EncodeOptions options{.max_length = max_length};
      Ids ids;
      const RowShape shape = tokenizer->append(text, std::nullopt, options, ids);
      EXPECT_EQ(ids, tokenizer->encode(text, std::nullopt, options).input_ids);
      EXPECT_TRUE(shape.truncated);
      const auto kept = static_cast<std::ptrdiff_t>(max_length - 2);
      const Ids middle(ids.begin() + 1, ids.end() - 1);
      EXPECT_EQ(middle, path == left.path() ? Ids(whole.end() - kept, whole.end())
                                            : Ids(whole.begin(), whole.begin() + kept));
      if (max_length < 4) continue;
      ids.clear();
      tokenizer->append(text, pair, options, ids);
      EXPECT_EQ(ids, tokenizer->encode(text, pair, options).input_ids);
      EXPECT_EQ(static_cast<int64_t>(ids.size()), max_length);
    }
    Ids ids;
    EXPECT_THROW(tokenizer->append(text, pair, {.max_length = 3}, ids), ConfigError);
  }
}

TEST(PipelineTokenizer, SavesWhatItReads) {
  const TemporaryDirectory model, saved;
  copy_byte_level(model, R"({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true,
      "added_tokens_decoder": {"400": {"content": "Cat!", "normalized": true, "single_word": true}}})");
  const auto tokenizer = load_tokenizer(model.path());
  tokenizer->save(saved.path());
  const auto reloaded = load_tokenizer(saved.path());
  EXPECT_EQ(reloaded->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(reloaded->vocab_size(), tokenizer->vocab_size());
  const std::string text = "the Cat! sat <mask> on naïve";
  EXPECT_EQ(ids_of(*reloaded, text), ids_of(*tokenizer, text));
  const Json config = read_json(saved.path() / "tokenizer_config.json");
  EXPECT_EQ(config["tokenizer_class"], "RobertaTokenizer");
  EXPECT_EQ(config["add_prefix_space"], true);
}

/// A SentencePiece model of a few pieces, written by hand in protobuf's wire format.
std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}

std::string piece(const std::string& text, float score, char type) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return field(1, field(1, text) + '\x15' + bits + '\x18' + type);
}

std::string small_sentencepiece(char model_type) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -3, 1) +
         piece("a", -2, 1) + piece("b", -2, 1) + piece("ab", -3, 1) + piece("\u2581ab", -1.5f, 1) +
         piece("ba", -3, 1) + field(2, std::string("\x18") + model_type);
}

TEST(PipelineTokenizer, ReadsASentencePieceModelAsItsFamilyDoes) {
  const TemporaryDirectory model;
  model.write("sentencepiece.bpe.model", small_sentencepiece(1));
  model.write("config.json", R"({"model_type": "xlm-roberta"})");
  const auto tokenizer = load_tokenizer(model.path());
  // <s> <pad> </s> <unk>, the pieces from the fourth on, <mask>.
  EXPECT_EQ(tokenizer->vocab_size(), 11);
  EXPECT_EQ(tokenizer->token_to_id("\u2581ab"), 8);
  EXPECT_EQ(ids_of(*tokenizer, "ab  xy<mask>a"), (Ids{0, 8, 4, 3, 10, 4, 5, 2}));
  EXPECT_EQ(tokenizer->num_special_tokens(true), 4);

  const TemporaryDirectory saved;
  tokenizer->save(saved.path());
  EXPECT_EQ(load_tokenizer(saved.path())->fingerprint(), tokenizer->fingerprint());
}

TEST(PipelineTokenizer, ReadsASentencePieceModelOfNoFamily) {
  for (const char model_type : {'\x01', '\x02'}) {
    const TemporaryDirectory model;
    model.write("tokenizer.model", small_sentencepiece(model_type));
    const auto tokenizer = load_tokenizer(model.path());
    EXPECT_EQ(tokenizer->vocab_size(), 9);
    // As unigrams by the sum of the scores; as merges "ab" comes before "ba", which has its score.
    EXPECT_EQ(ids_of(*tokenizer, "aba"), (Ids{7, 4}));
    EXPECT_EQ(ids_of(*tokenizer, "ba"), (Ids{3, 8}));
  }
}

}  // namespace
}  // namespace finetune
