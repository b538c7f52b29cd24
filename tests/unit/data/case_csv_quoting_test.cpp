// Files and answers in tests/data/cases/10-csv-quoting: real reports of rows cut, merged or dropped.
#include <gmock/gmock.h>

#include "data/data_files.h"
#include "finetune/data/delimited_parser.h"
#include "finetune/data/encoded_dataset.h"

namespace finetune {
namespace {

using test::by_name;
using test::case_folder;
using test::expected_of_case;
using test::read_error;
using test::read_pairs;
using testing::HasSubstr;
using Fields = std::vector<std::string>;

const std::string kCase = "10-csv-quoting";

struct ParsedRecord {
  int64_t line;
  Fields fields;
};

std::vector<ParsedRecord> parse(const std::string& name, char delimiter) {
  TextSource source(case_folder(kCase) / name, TextEncoding::kUtf8);
  DelimitedParser parser(source, delimiter);
  DelimitedParser::Record record;
  std::vector<ParsedRecord> records;
  while (parser.next(record))
    records.push_back({record.line, Fields(record.fields.begin(), record.fields.end())});
  return records;
}

TEST(CsvQuotingCase, GoodFileHasTheExpectedFieldsAndLines) {
  const Json expected = expected_of_case(kCase)["good.csv"];
  const auto records = parse("good.csv", ',');
  ASSERT_EQ(records.size(), expected["rows"].size() + 1);
  EXPECT_EQ(records[0].fields, expected["header"].get<Fields>());
  for (size_t i = 0; i < expected["rows"].size(); ++i) {
    const Json& row = expected["rows"][i];
    EXPECT_EQ(records[i + 1].fields, row["fields"].get<Fields>()) << row;
    EXPECT_EQ(records[i + 1].line, row["line"].get<int64_t>()) << row;
  }
}

TEST(CsvQuotingCase, RowsOfTheGoodFileCarryTextLabelAndLine) {
  const Json expected = expected_of_case(kCase)["good.csv"]["rows"];
  const auto rows = test::read_rows(case_folder(kCase) / "good.csv");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].text, expected[i]["fields"][1].get<std::string>());
    EXPECT_EQ(rows[i].label, expected[i]["fields"][2].get<std::string>());
    EXPECT_EQ(rows[i].line, expected[i]["line"].get<int64_t>());
  }
}

TEST(CsvQuotingCase, BrokenFilesAreRefusedWithPlaceAndReason) {
  const Json refused = expected_of_case(kCase)["refuse"];
  for (const auto& [name, answer] : refused.items()) {
    const std::string path = (case_folder(kCase) / name).string();
    std::string message;
    try {
      read_dataset({path}, DataConfig{}, LabelPresence::kRequired);
    } catch (const DataError& error) {
      message = error.what();
    }
    const auto reason = answer.get<std::string>();
    if (reason.starts_with("line ")) {
      const size_t colon = reason.find(':');
      EXPECT_THAT(message,
                  HasSubstr(path + ":" + reason.substr(5, colon - 5) + ": " + reason.substr(colon + 2)));
    } else {
      EXPECT_THAT(message, HasSubstr(path + ": " + reason));
    }
  }
}

TEST(CsvQuotingCase, SemicolonFileIsReadWithItsDelimiter) {
  const Json expected = expected_of_case(kCase)["semicolon.csv"]["with_delimiter_semicolon"];
  const auto records = parse("semicolon.csv", ';');
  ASSERT_EQ(records.size(), expected.size());
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].fields, expected[i].get<Fields>());

  DataConfig config;
  config.delimiter = ';';
  config.text = by_name("Example");
  config.label = by_name("Type");
  const auto rows = test::read_rows(case_folder(kCase) / "semicolon.csv", config);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text, expected[1][1].get<std::string>());
  EXPECT_EQ(rows[1].label, expected[2][0].get<std::string>());
}

TEST(CsvQuotingCase, SemicolonFileUnderCommaNamesTheDelimiter) {
  DataConfig config;
  config.text = by_name("Example");
  config.label = by_name("Type");
  const std::string message = read_error(case_folder(kCase) / "semicolon.csv", config);
  EXPECT_THAT(message, HasSubstr("semicolon.csv:1: column 'Example' not found"));
  EXPECT_THAT(message, HasSubstr("'Type;Example'"));
  EXPECT_THAT(message, HasSubstr("';' looks like the delimiter"));
}

TEST(CsvQuotingCase, CarriageReturnLineEndsAreRefusedByName) {
  const auto path = case_folder(kCase) / "cr-only.csv";
  EXPECT_THAT(read_error(path), HasSubstr("cr-only.csv:1: lines end with CR alone"));
  DataConfig config;
  config.header = HeaderMode::kAbsent;
  config.text = test::by_number(0);
  config.label = test::by_number(1);
  EXPECT_THAT(read_error(path, config), HasSubstr("lines end with CR alone"));
}

TEST(CsvQuotingCase, LoneCarriageReturnOutsideQuotesIsKept) {
  const std::vector<Fields> expected = {{"be\rfore", "pos"}, {"bad", "neg"}};
  EXPECT_EQ(read_pairs(case_folder(kCase) / "lone-cr-unquoted.csv"), expected);
}

}  // namespace
}  // namespace finetune
