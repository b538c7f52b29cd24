#include <gmock/gmock.h>

#include "data/data_files.h"
#include "data/tag_scheme.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

DataConfig words_config() {
  DataConfig config;
  config.format = DataFormat::kConll;
  config.tokens = ColumnName{"tokens", {}};
  config.label_shape = LabelShape::kItems;
  return config;
}

TEST(Case15ConllIob1, GivesTheEntitiesInIob2) {
  const Json expected = test::expected_of_case("15-conll-iob1");
  const auto rows = test::read_rows(test::case_folder("15-conll-iob1") / "iob1.txt", words_config());
  ASSERT_EQ(rows.size(), expected.at("sentences").get<size_t>());
  size_t num_words = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(*rows[i].labels, expected.at("as_IOB2")[i].get<Words>());
    num_words += rows[i].items.size();
  }
  EXPECT_EQ(num_words, expected.at("tokens").get<size_t>());
}

TEST(RewriteIob1, LeavesIob2AndOtherSchemesAlone) {
  for (const Words& tags :
       {Words{"O", "B-A", "I-A", "B-A", "B-C"}, Words{"S-A", "I-A", "O"}, Words{"NN", "VB"}}) {
    Words rewritten = tags;
    EXPECT_EQ(rewrite_iob1(rewritten), 0);
    EXPECT_EQ(rewritten, tags);
  }
}

TEST(RewriteIob1, AnEntityBeginsAfterOutsideAndAtAChangeOfType) {
  Words tags{"I-A", "I-A", "I-C", "B-C", "", "I-C"};
  EXPECT_EQ(rewrite_iob1(tags), 3);
  EXPECT_THAT(tags, ElementsAre("B-A", "I-A", "B-C", "B-C", "", "B-C"));
}

class ConllReader : public ::testing::Test {
 protected:
  std::vector<Row> read(const std::string& text, const DataConfig& config = words_config(),
                        LabelPresence labels = LabelPresence::kRequired) {
    return test::read_rows(folder_.write("a.conll", text), config, labels);
  }
  std::string error(const std::string& text, const DataConfig& config = words_config()) {
    return test::read_error(folder_.write("a.conll", text), config);
  }
  test::TemporaryFolder folder_;
};

TEST_F(ConllReader, SentencesEndAtBlankLinesWhateverTheLineEnds) {
  const auto rows = read("a x B-P\r\nb x I-P\r\n\r\n \t\r\n\r\nc x O");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].items, ElementsAre("a", "b"));
  EXPECT_THAT(*rows[0].labels, ElementsAre("B-P", "I-P"));
  EXPECT_EQ(rows[1].line, 6);
  EXPECT_THAT(rows[1].items, ElementsAre("c"));
}

TEST_F(ConllReader, PassesOverCommentsButNotWordsThatBeginAlike) {
  const auto rows = read("# text = a # b\n#\tO\n#tag\tO\n\n# id = 2\na b\tO\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].items, ElementsAre("#", "#tag"));
  EXPECT_THAT(rows[1].items, ElementsAre("a b"));
}

TEST_F(ConllReader, TakesColumnsByNumber) {
  DataConfig config = words_config();
  config.text = test::by_number(1);
  config.label = test::by_number(2);
  const auto rows = read("1\ta\tB-X\t-\t-\n2\tb\tO\t-\t-\n", config);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].items, ElementsAre("a", "b"));
  EXPECT_THAT(*rows[0].labels, ElementsAre("B-X", "O"));
}

TEST_F(ConllReader, WordsAloneAreEnoughWhereNoTagIsNeeded) {
  const auto rows = read("a\nb\n\nc\n", words_config(), LabelPresence::kOptional);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].items, ElementsAre("a", "b"));
  EXPECT_FALSE(rows[0].labels.has_value());
}

TEST_F(ConllReader, RefusesALineThatHasOtherColumns) {
  const std::string message = error("a x O\nb O\n");
  EXPECT_THAT(message, HasSubstr("a.conll:2: 'b O' has 2 columns, expected 3"));
  EXPECT_THAT(message, HasSubstr("as in line 1"));
}

TEST_F(ConllReader, RefusesAFileWithoutTags) {
  EXPECT_THAT(error("a\nb\n"), HasSubstr("a.conll:1: 'a' has 1 column,"));
}

TEST_F(ConllReader, RefusesAnEmptyTag) {
  EXPECT_THAT(error("a\tO\nb\t\n"), HasSubstr("a.conll:2: 'b\\x09' has an empty tag"));
}

TEST_F(ConllReader, RefusesRowsWithoutWords) {
  DataConfig config;
  config.format = DataFormat::kConll;
  EXPECT_THAT(error("a O\n", config), HasSubstr("token_classification"));
}

class JsonlItems : public ::testing::Test {
 protected:
  std::vector<Row> read(const std::string& text) {
    return test::read_rows(folder_.write("a.jsonl", text), config_);
  }
  std::string error(const std::string& text) {
    return test::read_error(folder_.write("a.jsonl", text), config_);
  }
  test::TemporaryFolder folder_;
  DataConfig config_ = [] {
    DataConfig config;
    config.tokens = ColumnName{"tokens", {}};
    config.label = ColumnName{"tags", {}};
    config.label_shape = LabelShape::kItems;
    return config;
  }();
};

TEST_F(JsonlItems, WordsAndTagsAreLists) {
  const auto rows = read(R"({"tokens": ["a", "", "c"], "tags": ["I-X", null, 3]})");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].items, ElementsAre("a", "", "c"));
  EXPECT_THAT(*rows[0].labels, ElementsAre("I-X", "", "3"));
}

TEST_F(JsonlItems, RefusesListsOfTwoLengths) {
  EXPECT_THAT(error(R"({"tokens": ["a", "b"], "tags": ["O"]})"),
              HasSubstr("a.jsonl:1: key 'tags' has 1 labels for the 2 items of key 'tokens'"));
}

TEST_F(JsonlItems, RefusesWhatIsNoListOfStrings) {
  EXPECT_THAT(error(R"({"tokens": "a b", "tags": ["O"]})"),
              HasSubstr("key 'tokens' is a string, expected a list"));
  EXPECT_THAT(error(R"({"tokens": ["a", 1], "tags": ["O", "O"]})"),
              HasSubstr("item 1 of key 'tokens' is a number, expected a string"));
  EXPECT_THAT(error(R"({"tokens": ["a"], "tags": [["O"]]})"), HasSubstr("item 0 of key 'tags' is a list"));
}

TEST_F(JsonlItems, RefusesPlacesThatAreNoWholeNumbers) {
  config_.tokens.reset();
  config_.positions = ColumnName{"at", {}};
  EXPECT_THAT(error(R"({"text": "ab", "at": [0, -1], "tags": ["x", "y"]})"),
              HasSubstr("item 1 of key 'at' is -1, expected a whole number from 0"));
}

TEST_F(JsonlItems, TablesHaveNone) {
  EXPECT_THAT(test::read_error(folder_.write("a.csv", "tokens,tags\na,O\n"), config_),
              HasSubstr("write JSONL"));
}

}  // namespace
}  // namespace finetune
