#include <gmock/gmock.h>

#include "data/data_files.h"
#include "finetune/data/text_source.h"

namespace finetune {
namespace {

using test::by_name;
using test::by_number;
using test::read_error;
using test::read_pairs;
using test::read_rows;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Pairs = std::vector<std::vector<std::string>>;

DataConfig numbered(size_t text, size_t label, HeaderMode header = HeaderMode::kAuto) {
  DataConfig config;
  config.text = by_number(text);
  config.label = by_number(label);
  config.header = header;
  return config;
}

class DelimitedReaderTest : public testing::Test {
 protected:
  std::filesystem::path csv(std::string_view content) const { return folder_.write("data.csv", content); }

  TemporaryFolder folder_;
};

TEST_F(DelimitedReaderTest, TsvQuotesAsCsvDoes) {
  const auto path = folder_.write(
      "data.tsv", "text\tlabel\r\n\"says \"\"hi\"\"\tand\nleaves\"\tpos\r\nan \"inner\" one\tneg\r\n");
  EXPECT_EQ(read_pairs(path), (Pairs{{"says \"hi\"\tand\nleaves", "pos"}, {"an \"inner\" one", "neg"}}));
}

TEST_F(DelimitedReaderTest, PairsColumnsInAnyOrderAndOthersPassedOver) {
  DataConfig config;
  config.text = by_name("premise");
  config.text_pair = by_name("hypothesis");
  const auto rows = read_rows(csv("id,label,hypothesis,premise\n7,yes,b,a\n8,no,,c\n"), config);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text, "a");
  EXPECT_EQ(rows[0].text_pair, "b");
  EXPECT_EQ(rows[0].label, "yes");
  EXPECT_EQ(rows[1].text_pair, "");
}

TEST_F(DelimitedReaderTest, LabelsAreOptionalWhereAsked) {
  const auto without = read_rows(csv("text\na\n\nb\n"), {}, LabelPresence::kOptional);
  ASSERT_EQ(without.size(), 2u);
  EXPECT_FALSE(without[0].label);
  EXPECT_EQ(without[1].line, 4);
  const auto partly = read_rows(csv("text,label\na,\nb,pos\n"), {}, LabelPresence::kOptional);
  EXPECT_FALSE(partly[0].label);
  EXPECT_EQ(partly[1].label, "pos");
}

TEST_F(DelimitedReaderTest, EmptyTextsAreRowsAndEmptyLabelsAreNot) {
  EXPECT_EQ(read_pairs(csv("text,label\n,pos\n\"\",neg\n")), (Pairs{{"", "pos"}, {"", "neg"}}));
  EXPECT_THAT(read_error(csv("text,label\na,pos\nb,\n")), HasSubstr("data.csv:3: the label is empty"));
}

TEST_F(DelimitedReaderTest, HeaderIsDecidedByConfiguredNames) {
  EXPECT_EQ(read_pairs(csv("label,text\npos,a\n")), (Pairs{{"a", "pos"}}));
  DataConfig mixed = numbered(1, 0);
  mixed.label = by_name("kind");
  EXPECT_EQ(read_pairs(csv("kind,words\npos,a\n"), mixed), (Pairs{{"a", "pos"}}));
}

TEST_F(DelimitedReaderTest, WithNumbersOnlyUsualNamesMakeAHeader) {
  EXPECT_EQ(read_pairs(csv("good,pos\nbad,neg\n"), numbered(0, 1)), (Pairs{{"good", "pos"}, {"bad", "neg"}}));
  EXPECT_EQ(read_pairs(csv("Text,Kind\nbad,neg\n"), numbered(0, 1)), (Pairs{{"bad", "neg"}}));
  EXPECT_EQ(read_pairs(csv("words,category\nbad,neg\n"), numbered(0, 1)), (Pairs{{"bad", "neg"}}));
  EXPECT_EQ(read_pairs(csv("text,label\nbad,neg\n"), numbered(0, 1, HeaderMode::kAbsent)),
            (Pairs{{"text", "label"}, {"bad", "neg"}}));
  EXPECT_EQ(read_pairs(csv("good,pos\nbad,neg\n"), numbered(0, 1, HeaderMode::kPresent)),
            (Pairs{{"bad", "neg"}}));
}

TEST_F(DelimitedReaderTest, MissingColumnListsWhatIsThereAndTheNearestName) {
  EXPECT_THAT(
      read_error(csv("texts,label\na,pos\n")),
      AllOf(HasSubstr("data.csv:1: column 'text' not found"), HasSubstr("2 fields: 'texts', 'label'"),
            HasSubstr("did you mean 'texts'?"), HasSubstr("set data.text"), Not(HasSubstr("delimiter"))));
  EXPECT_THAT(read_error(csv("text,kind\na,pos\n")),
              AllOf(HasSubstr("column 'label' not found"), HasSubstr("set data.label")));
  DataConfig config;
  config.text_pair = by_name("second");
  EXPECT_THAT(read_error(csv("text,label\na,pos\n"), config), HasSubstr("set data.text_pair"));
}

TEST_F(DelimitedReaderTest, OtherDelimitersAreRecognised) {
  EXPECT_THAT(read_error(csv("text\tlabel\na\tpos\n")), HasSubstr("'\\t' looks like the delimiter"));
  EXPECT_THAT(read_error(csv("text|label\na|pos\n")), HasSubstr("'|' looks like the delimiter"));
  EXPECT_THAT(read_error(csv("a;text;label, or class\n")), HasSubstr("';' looks like the delimiter"));
  EXPECT_THAT(read_error(csv("a;pos\nb;neg\n"), numbered(0, 1)),
              AllOf(HasSubstr("data.label is column 1, but the row has 1 (numbered from 0)"),
                    HasSubstr("';' looks like")));
}

TEST_F(DelimitedReaderTest, NamesWithoutAHeaderAreRefused) {
  DataConfig config;
  config.header = HeaderMode::kAbsent;
  EXPECT_THAT(
      read_error(csv("a,pos\n"), config),
      AllOf(HasSubstr("data.text is the name 'text', but data.header is false"), HasSubstr("0 to 1")));
}

TEST_F(DelimitedReaderTest, DuplicateNamesMatterOnlyWhereTheyAreAskedFor) {
  EXPECT_EQ(read_pairs(csv("text,note,note,label\na,1,2,pos\n")), (Pairs{{"a", "pos"}}));
  EXPECT_THAT(read_error(csv("text,label,label\na,pos,b\n")), HasSubstr("data.csv:1: column 'label' twice"));
}

TEST_F(DelimitedReaderTest, StrayQuoteNeverJoinsRowsInSilence) {
  const std::string content = "text\tlabel\n\"Hello he said\tpos\nfoo \"bar\" baz\tneg\n";
  EXPECT_THAT(read_error(folder_.write("stray.tsv", content)),
              AllOf(HasSubstr("stray.tsv:2: a quoted field that begins here ends on line 3"),
                    HasSubstr("stray double quote")));
  EXPECT_THAT(read_error(csv("text,label\n\"a,pos\nb\",neg,x\n")),
              AllOf(HasSubstr("data.csv:2: 3 fields, header has 2"), HasSubstr("runs to line 3")));
}

TEST_F(DelimitedReaderTest, UnclosedQuoteNamesTheLineOfItsField) {
  EXPECT_THAT(read_error(csv("text,label\n\"two\nlines\",\"open\n")),
              HasSubstr("data.csv:3: quoted field not closed before end of file"));
}

TEST_F(DelimitedReaderTest, UnclosedQuoteIsRefusedBeforeItFillsMemory) {
  const auto path = csv("text,label\n\"never closed,pos\n");
  std::filesystem::resize_file(path, 3 * kMaxRowBytes);
  EXPECT_THAT(read_error(path), HasSubstr("data.csv:2: quoted field is not closed within 64 MiB"));
}

TEST_F(DelimitedReaderTest, FilesWithoutRows) {
  EXPECT_THAT(read_error(csv("")), HasSubstr("data.csv: empty file"));
  EXPECT_THAT(read_error(csv("\xEF\xBB\xBF")), HasSubstr("data.csv: empty file"));
  EXPECT_THAT(read_error(csv("\r\n\n\n")), HasSubstr("data.csv: no rows, only empty lines"));
  EXPECT_TRUE(read_rows(csv("text,label\n")).empty());
}

TEST_F(DelimitedReaderTest, ValuesInMessagesAreEscapedAndCut) {
  std::string content("te\0xt\x1b[31m,", 12);
  content.append(500, 'x').push_back('\n');
  const std::string message = read_error(csv(content));
  EXPECT_THAT(message, AllOf(HasSubstr("'te\\x00xt\\x1b[31m'"), HasSubstr("xxx...'")));
  EXPECT_LT(message.size(), 400u);
}

TEST_F(DelimitedReaderTest, DelimiterThatCannotSeparateIsAConfigError) {
  DataConfig config;
  config.delimiter = '"';
  try {
    read_rows(csv("text,label\n"), config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.delimiter"));
  }
}

TEST_F(DelimitedReaderTest, ReplacedRowsAreCountedOnceEach) {
  DataConfig config;
  config.encoding = TextEncoding::kUtf8Replace;
  const auto reader = open_rows(csv("text,label,\xFF\na\xFF\xFE,pos,\nb,neg,\nc,n\xFFg,\n"), config,
                                LabelPresence::kRequired);
  const auto rows = read_rows(*reader);
  EXPECT_EQ(rows[0].text, "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(reader->num_replaced_rows(), 2);
}

TEST_F(DelimitedReaderTest, ErrorsComeAfterTheRowsBeforeThem) {
  const auto reader = open_rows(csv("text,label\na,pos\nb\xFF,neg\n"), {}, LabelPresence::kRequired);
  Row row;
  ASSERT_TRUE(reader->next(row));
  EXPECT_EQ(row.text, "a");
  EXPECT_THROW(reader->next(row), DataError);
}

}  // namespace
}  // namespace finetune
