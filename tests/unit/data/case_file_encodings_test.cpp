// Files and answers in tests/data/cases/13-file-encodings: byte-order marks, UTF-16, Latin-1, NUL, cut
// characters.
#include <gmock/gmock.h>

#include "data/data_files.h"

namespace finetune {
namespace {

using test::case_folder;
using test::expected_of_case;
using test::read_error;
using test::read_pairs;
using testing::HasSubstr;
using Pairs = std::vector<std::vector<std::string>>;

const std::string kCase = "13-file-encodings";

DataConfig with_encoding(TextEncoding encoding) {
  DataConfig config;
  config.encoding = encoding;
  return config;
}

TEST(FileEncodingsCase, SameRowsWithAndWithoutByteOrderMark) {
  const Json expected = expected_of_case(kCase);
  size_t num_files = 0;
  for (const auto& [name, answer] : expected["files"].items()) {
    if (!answer.contains("rows") || answer["rows"] != "rows_full") continue;
    EXPECT_EQ(read_pairs(case_folder(kCase) / name), expected["rows_full"].get<Pairs>()) << name;
    ++num_files;
  }
  EXPECT_EQ(num_files, 4u);
}

TEST(FileEncodingsCase, Utf16WithMarkIsReadUnderEitherOption) {
  const Json expected = expected_of_case(kCase);
  for (const char* name : {"utf16le-bom.csv", "utf16be-bom.csv"}) {
    for (const TextEncoding encoding :
         {TextEncoding::kUtf8, TextEncoding::kUtf8Replace, TextEncoding::kUtf16}) {
      EXPECT_EQ(read_pairs(case_folder(kCase) / name, with_encoding(encoding)),
                expected["rows_full"].get<Pairs>())
          << name;
    }
  }
}

TEST(FileEncodingsCase, Utf16WithoutMarkIsRefusedUnlessAskedFor) {
  const auto path = case_folder(kCase) / "utf16le-no-bom.csv";
  for (const TextEncoding encoding :
       {TextEncoding::kUtf8, TextEncoding::kUtf8Replace, TextEncoding::kLatin1}) {
    EXPECT_THAT(read_error(path, with_encoding(encoding)), HasSubstr("NUL bytes in every second place"));
    EXPECT_THAT(read_error(path, with_encoding(encoding)), HasSubstr("looks like UTF-16"));
  }
  const Json expected = expected_of_case(kCase)["files"]["latin1.csv"]["with_option_latin1"];
  EXPECT_EQ(read_pairs(path, with_encoding(TextEncoding::kUtf16)), expected.get<Pairs>());
}

TEST(FileEncodingsCase, BytesThatAreNotUtf8AreRefusedWithTheirPlace) {
  const Json expected = expected_of_case(kCase);
  size_t num_files = 0;
  for (const auto& [name, answer] : expected["files"].items()) {
    if (!answer.contains("refuse_as_not_utf8")) continue;
    const Json place = answer["refuse_as_not_utf8"];
    const std::string message = read_error(case_folder(kCase) / name);
    EXPECT_THAT(message,
                HasSubstr(name + ":" + place["line"].dump() + ": byte " + place["byte"].get<std::string>() +
                          " at byte offset " + place["byte_offset"].dump()));
    EXPECT_THAT(message, HasSubstr("set data.encoding"));
    ++num_files;
  }
  EXPECT_EQ(num_files, 5u);
}

TEST(FileEncodingsCase, Latin1IsReadWhenAskedFor) {
  const Json expected = expected_of_case(kCase)["files"]["latin1.csv"]["with_option_latin1"];
  EXPECT_EQ(read_pairs(case_folder(kCase) / "latin1.csv", with_encoding(TextEncoding::kLatin1)),
            expected.get<Pairs>());
}

TEST(FileEncodingsCase, NulInAFieldDoesNotCutTheText) {
  const Json expected = expected_of_case(kCase)["files"]["nul-in-field.csv"];
  const Pairs rows = read_pairs(case_folder(kCase) / "nul-in-field.csv");
  ASSERT_EQ(rows.size(), expected["rows"].get<size_t>());
  EXPECT_EQ(rows[0][0], expected["text_1"].get<std::string>());
}

TEST(FileEncodingsCase, NulBytesAfterTheDataAreRefusedWithTheirLine) {
  EXPECT_THAT(read_error(case_folder(kCase) / "nul-at-end.csv"),
              testing::AllOf(HasSubstr("nul-at-end.csv:4: 1 field"), HasSubstr("16 NUL bytes")));
}

TEST(FileEncodingsCase, JsonEscapes) {
  const Json expected = expected_of_case(kCase)["files"]["jsonl-escapes.jsonl"];
  const auto path = case_folder(kCase) / "jsonl-escapes.jsonl";
  const auto reader = open_rows(path, DataConfig{}, LabelPresence::kRequired);
  Row row;
  ASSERT_TRUE(reader->next(row));
  EXPECT_EQ(row.text, expected["line 1"].get<std::string>());
  EXPECT_THAT(read_error(path), testing::AllOf(HasSubstr("jsonl-escapes.jsonl:2:"), HasSubstr("surrogate")));

  const std::string lines = read_file(path);
  test::TemporaryFolder folder;
  const size_t third = lines.rfind('{');
  const Pairs rows = read_pairs(folder.write("third.jsonl", lines.substr(third)));
  EXPECT_EQ(rows[0][0], expected["line 3"].get<std::string>());
}

}  // namespace
}  // namespace finetune
