#include "finetune/data/csv_writer.h"

#include <gtest/gtest.h>

#include <random>

#include "data/data_files.h"
#include "finetune/data/delimited_parser.h"

namespace finetune {
namespace {

using test::TemporaryFolder;
using Fields = std::vector<std::string>;

std::string csv_record(const Fields& fields, char delimiter = ',') {
  std::string out;
  append_csv_record(out, {fields.begin(), fields.end()}, delimiter);
  return out;
}

std::vector<Fields> parse(const std::filesystem::path& path, char delimiter) {
  TextSource source(path, TextEncoding::kUtf8);
  DelimitedParser parser(source, delimiter);
  DelimitedParser::Record record;
  std::vector<Fields> records;
  while (parser.next(record)) records.emplace_back(record.fields.begin(), record.fields.end());
  return records;
}

TEST(CsvWriter, QuotesOnlyWhereReadingBackNeedsIt) {
  EXPECT_EQ(csv_record({"plain", " blank ", "semi;colon", ""}), "plain, blank ,semi;colon,\n");
  EXPECT_EQ(csv_record({"a,b", "say \"hi\"", "two\nlines", "c\rd"}),
            "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"c\rd\"\n");
  EXPECT_EQ(csv_record({"a,b", "c;d"}, ';'), "a,b;\"c;d\"\n");
  EXPECT_EQ(csv_record({""}), "\"\"\n");
  EXPECT_EQ(csv_record({"\xEF\xBB\xBFmark"}), "\"\xEF\xBB\xBFmark\"\n");
}

/// Fields made of the pieces that CSV readers trip over.
std::string random_field(std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "word",
                                                   "\"",
                                                   "\"\"",
                                                   ",",
                                                   ";",
                                                   "\t",
                                                   "\n",
                                                   "\r",
                                                   "\r\n",
                                                   " ",
                                                   "",
                                                   "\xC3\xA9",
                                                   "\xE4\xB8\xAD",
                                                   "\xF0\x9F\x98\x80",
                                                   "\xEF\xBB\xBF",
                                                   std::string(1, '\0'),
                                                   "'",
                                                   "\\"};
  std::string field;
  for (size_t count = random() % 7; count > 0; --count) field += kPieces[random() % kPieces.size()];
  return field;
}

class CsvRoundTrip : public testing::TestWithParam<char> {};

TEST_P(CsvRoundTrip, RandomTablesReadBackEqual) {
  TemporaryFolder folder;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const size_t num_columns = 1 + random() % 5;
    std::vector<Fields> table(1 + random() % 40);
    std::string content;
    for (Fields& fields : table) {
      for (size_t i = 0; i < num_columns; ++i) fields.push_back(random_field(random));
      content += csv_record(fields, GetParam());
    }
    ASSERT_EQ(parse(folder.write("table.csv", content), GetParam()), table) << "seed " << seed;
  }
}

TEST_P(CsvRoundTrip, ATableOfManyBlocksReadsBackEqual) {
  TemporaryFolder folder;
  std::mt19937_64 random(7);
  std::vector<Fields> table(60'000);
  std::string content;
  for (Fields& fields : table) {
    fields = {random_field(random), random_field(random) + std::string(random() % 30, 'x'),
              random_field(random)};
    content += csv_record(fields, GetParam());
  }
  std::string field(900'000, 'y');
  field += "\n\"";
  field.append(300'000, 'z');
  table.push_back({field, "", "end"});
  content += csv_record(table.back(), GetParam());
  ASSERT_GT(content.size(), 2'000'000u);
  ASSERT_EQ(parse(folder.write("table.csv", content), GetParam()), table);
}

TEST_P(CsvRoundTrip, LinesAreCountedAcrossUnescapedFields) {
  TemporaryFolder folder;
  std::mt19937_64 random(11);
  std::string content;
  std::vector<int64_t> lines;
  for (int i = 0; i < 2'000; ++i) {
    lines.push_back(1 + std::count(content.begin(), content.end(), '\n'));
    content += csv_record({random_field(random), "\"\n\"" + random_field(random)}, GetParam());
  }
  TextSource source(folder.write("table.csv", content), TextEncoding::kUtf8);
  DelimitedParser parser(source, GetParam());
  DelimitedParser::Record record;
  for (const int64_t line : lines) {
    ASSERT_TRUE(parser.next(record));
    ASSERT_EQ(record.line, line);
  }
  EXPECT_FALSE(parser.next(record));
}

INSTANTIATE_TEST_SUITE_P(Delimiters, CsvRoundTrip, testing::Values(',', '\t', ';'));

}  // namespace
}  // namespace finetune
