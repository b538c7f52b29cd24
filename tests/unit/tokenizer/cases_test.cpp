#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "finetune/core/error.h"
#include "tokenizer_test_support.h"

namespace finetune {
namespace {

using testing::case_directory;
using ::testing::HasSubstr;
using testing::ids_of;
using testing::LogCapture;
using ::testing::Not;
using testing::read_json;
using testing::TemporaryDirectory;

const std::vector<std::string>& lowercase_variants() {
  static const std::vector<std::string> kNames = {"a-vocab-only",
                                                  "b-config-cased",
                                                  "c-json-lower-config-cased",
                                                  "d-json-cased-config-lower",
                                                  "e-json-cased-no-config",
                                                  "f-json-cased-config-silent",
                                                  "g-lower-keep-accents",
                                                  "h-no-chinese-split",
                                                  "i-sbert-file-says-cased",
                                                  "j-misspelt-key"};
  return kNames;
}

TEST(Case02BlankAndControlCharacters, GivesTheReferenceIds) {
  const auto directory = case_directory("02-blank-and-control-chars");
  const auto tokenizer = load_tokenizer(directory);
  const Json rows = read_json(directory / "expected.json")["rows"];
  ASSERT_EQ(rows.size(), 43u);
  for (const Json& row : rows) {
    const auto text = row["text"].get<std::string>();
    const auto expected = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(ids_of(*tokenizer, text), expected) << row["char"];
    EXPECT_EQ(tokenizer->encode(text, std::nullopt, {}).input_ids, expected) << row["char"];
  }
}

class Case03LowercaseConflict : public ::testing::TestWithParam<std::string> {};

TEST_P(Case03LowercaseConflict, FollowsTheReferenceAndSavesWhatItChose) {
  const auto directory = case_directory("03-lowercase-conflict");
  const Json expected = read_json(directory / "expected.json");
  const auto text = expected["text"].get<std::string>();
  const auto right = expected["variants"][GetParam()]["hf_ids"].get<std::vector<int32_t>>();
  const auto tokenizer = load_tokenizer(directory / GetParam());
  EXPECT_EQ(ids_of(*tokenizer, text), right);

  const TemporaryDirectory saved;
  tokenizer->save(saved.path());
  const LogCapture log;
  const auto reloaded = load_tokenizer(saved.path());
  EXPECT_EQ(ids_of(*reloaded, text), right);
  EXPECT_EQ(reloaded->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(log.text(), "") << "a saved directory says what is in force, so nothing is left to warn of";
}

INSTANTIATE_TEST_SUITE_P(Variants, Case03LowercaseConflict, ::testing::ValuesIn(lowercase_variants()),
                         [](const auto& variant) { return std::string(1, variant.param[0]); });

std::string warnings_of(const std::string& variant) {
  const LogCapture log;
  load_tokenizer(case_directory("03-lowercase-conflict") / variant);
  return log.text();
}

TEST(Case03LowercaseConflict, WarnsWhereFilesDisagree) {
  for (const char* variant : {"c-json-lower-config-cased", "d-json-cased-config-lower"}) {
    EXPECT_THAT(warnings_of(variant),
                HasSubstr("tokenizer.json and tokenizer_config.json disagree about lower case"));
  }
  for (const char* variant : {"e-json-cased-no-config", "f-json-cased-config-silent"}) {
    EXPECT_THAT(warnings_of(variant), HasSubstr("tokenizer.json has lowercase false"));
    EXPECT_THAT(warnings_of(variant), HasSubstr("the default, true, is used"));
  }
}

TEST(Case03LowercaseConflict, WarnsOfCasedPiecesUnderTheDefault) {
  EXPECT_THAT(warnings_of("a-vocab-only"),
              HasSubstr("vocabulary holds cased pieces (Paris, The, École) but lower case is the default"));
  EXPECT_EQ(warnings_of("b-config-cased"), "");
  EXPECT_THAT(warnings_of("i-sbert-file-says-cased"), Not(HasSubstr("cased pieces")));
}

TEST(Case03LowercaseConflict, WarnsOfAMisspeltKey) {
  EXPECT_THAT(warnings_of("j-misspelt-key"), HasSubstr("unknown key do_lowercase"));
  EXPECT_THAT(warnings_of("j-misspelt-key"), HasSubstr("did you mean do_lower_case?"));
}

TEST(Case05Offsets, PointIntoTheOriginalText) {
  const auto directory = case_directory("05-offsets");
  const Json rows = read_json(directory / "expected.json")["rows"];
  ASSERT_EQ(rows.size(), 28u);
  for (const bool lower : {true, false}) {
    const TemporaryDirectory model;
    model.write("vocab.txt", read_file(directory / "vocab.txt"));
    model.write("tokenizer_config.json",
                lower ? R"({"do_lower_case": true})" : R"({"do_lower_case": false})");
    const auto tokenizer = load_tokenizer(model.path());
    for (const Json& row : rows) {
      if (row["do_lower_case"].get<bool>() != lower) continue;
      const auto text = row["text"].get<std::string>();
      const Encoding encoding = tokenizer->encode_plain(text);
      EXPECT_EQ(encoding.input_ids, row["ids"].get<std::vector<int32_t>>()) << text;
      std::vector<std::string> tokens;
      for (const int32_t id : encoding.input_ids) tokens.push_back(tokenizer->id_to_token(id));
      EXPECT_EQ(tokens, row["tokens"].get<std::vector<std::string>>()) << text;
      std::vector<std::vector<int32_t>> offsets;
      for (const ByteSpan& span : encoding.offsets) offsets.push_back({span.begin, span.end});
      EXPECT_EQ(offsets, row["byte_offsets"].get<std::vector<std::vector<int32_t>>>()) << text;
    }
  }
}

std::string repeated(const char* word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + std::string(word);
  return text;
}

TruncationStrategy strategy_named(const std::string& name) {
  if (name == "only_first") return TruncationStrategy::kOnlyFirst;
  if (name == "only_second") return TruncationStrategy::kOnlySecond;
  return TruncationStrategy::kLongestFirst;
}

TEST(Case08PairTruncation, KeepsWhatTheReferenceKeeps) {
  const auto directory = case_directory("08-pair-truncation");
  const auto tokenizer = load_tokenizer(directory);
  const int32_t cat = tokenizer->token_to_id("cat").value(), dog = tokenizer->token_to_id("dog").value();
  const Json rows = read_json(directory / "expected.json")["rows"];
  ASSERT_EQ(rows.size(), 93u);
  for (const Json& row : rows) {
    const std::string first = repeated("cat", row["a"].get<int>()),
                      second = repeated("dog", row["b"].get<int>());
    const EncodeOptions options = {row["max_length"].get<int64_t>(), strategy_named(row["strategy"])};
    std::vector<int32_t> ids;
    if (row.contains("error")) {
      EXPECT_THROW(tokenizer->append(first, second, options, ids), DataError) << row;
      EXPECT_TRUE(ids.empty()) << row;
      EXPECT_THROW(tokenizer->encode(first, second, options), DataError) << row;
      continue;
    }
    const RowShape shape = tokenizer->append(first, second, options, ids);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), cat), row["first"].get<int>()) << row;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), dog), row["second"].get<int>()) << row;
    EXPECT_EQ(shape.num_tokens, row["length"].get<int64_t>()) << row;
    EXPECT_EQ(shape.truncated, row["a"].get<int>() + row["b"].get<int>() > options.max_length - 3) << row;
    const auto types = row["type_ids"].get<std::string>();
    EXPECT_EQ(shape.second_segment, static_cast<int64_t>(types.find('1'))) << row;
    const Encoding encoding = tokenizer->encode(first, second, options);
    EXPECT_EQ(encoding.input_ids, ids) << row;
    std::string encoded_types;
    for (const int32_t type : encoding.token_type_ids) encoded_types += static_cast<char>('0' + type);
    EXPECT_EQ(encoded_types, types) << row;
  }
}

TEST(Case08PairTruncation, RefusesALengthWithoutRoomForSpecialTokens) {
  const auto tokenizer = load_tokenizer(case_directory("08-pair-truncation"));
  std::vector<int32_t> ids;
  EXPECT_THROW(tokenizer->append("cat", "dog", {.max_length = 2}, ids), ConfigError);
  EXPECT_THROW(tokenizer->append("cat", std::nullopt, {.max_length = 1}, ids), ConfigError);
  EXPECT_THROW(tokenizer->encode("cat", "dog", {.max_length = 2}), ConfigError);
  EXPECT_EQ(ids_of(*tokenizer, "cat", std::nullopt, {.max_length = 2}).size(), 2u);
}

TEST(Case08PairTruncation, AnEmptySecondTextKeepsItsSeparator) {
  const auto directory = case_directory("08-pair-truncation");
  const auto tokenizer = load_tokenizer(directory);
  const Json expected =
      read_json(directory / "expected.json")["empty_second_text"]["right_ids_for_cat_cat_and_empty"];
  std::vector<int32_t> ids;
  const RowShape shape = tokenizer->append("cat cat", "", {}, ids);
  EXPECT_EQ(ids, expected.get<std::vector<int32_t>>());
  EXPECT_EQ(shape.second_segment, shape.num_tokens - 1);
}

TEST(Case08PairTruncation, SaysWhyAStrategyCannotWork) {
  const auto tokenizer = load_tokenizer(case_directory("08-pair-truncation"));
  const std::string nine = repeated("dog", 9);
  const auto message = [&](std::optional<std::string_view> pair, TruncationStrategy strategy) {
    try {
      tokenizer->encode(nine, pair, {8, strategy});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("cat", TruncationStrategy::kOnlySecond), HasSubstr("the second text has only 1"));
  EXPECT_THAT(message(std::nullopt, TruncationStrategy::kOnlySecond), HasSubstr("it has no second text"));
}

}  // namespace
}  // namespace finetune
