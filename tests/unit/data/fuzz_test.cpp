// Whatever bytes a file holds, reading it ends with rows or a DataError.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "data/data_files.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

using test::TemporaryFolder;

constexpr TextEncoding kEncodings[] = {TextEncoding::kUtf8, TextEncoding::kUtf8Replace, TextEncoding::kLatin1,
                                       TextEncoding::kUtf16};
constexpr DataFormat kFormats[] = {DataFormat::kCsv, DataFormat::kTsv, DataFormat::kJsonl};

/// Reads `path` in every format and encoding; returns how often all went well.
int read_every_way(const std::filesystem::path& path, size_t num_bytes) {
  int successes = 0;
  for (const DataFormat format : kFormats) {
    for (const TextEncoding encoding : kEncodings) {
      for (const bool by_number : {false, true}) {
        DataConfig config;
        config.format = format;
        config.encoding = encoding;
        if (by_number) config.text = test::by_number(0);
        try {
          const auto reader = open_rows(path, config, LabelPresence::kOptional);
          Row row;
          int64_t last_line = 0;
          size_t num_rows = 0;
          while (reader->next(row)) {
            EXPECT_EQ(find_invalid_utf8(row.text), std::string_view::npos);
            EXPECT_GT(row.line, last_line);
            last_line = row.line;
            EXPECT_LE(++num_rows, num_bytes);
          }
          ++successes;
        } catch (const DataError& error) {
          EXPECT_EQ(find_invalid_utf8(error.what()), std::string_view::npos);
        }
      }
    }
  }
  return successes;
}

class ReaderFuzz : public testing::Test {
 protected:
  ReaderFuzz() : level_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
  ~ReaderFuzz() override { spdlog::set_level(level_); }

 private:
  spdlog::level::level_enum level_;
};

TEST_F(ReaderFuzz, RandomBytes) {
  TemporaryFolder folder;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::string content(random() % 400, '\0');
    for (char& byte : content) byte = static_cast<char>(random());
    read_every_way(folder.write("random", content), content.size());
  }
}

TEST_F(ReaderFuzz, RandomPiecesOfRealFiles) {
  static const std::vector<std::string> kPieces = {"text",
                                                   "label",
                                                   ",",
                                                   "\t",
                                                   "\"",
                                                   "\"\"",
                                                   "\n",
                                                   "\r",
                                                   "\r\n",
                                                   "a",
                                                   "{\"text\": \"b\"}",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ":",
                                                   "\\u0041",
                                                   "\\ud83d",
                                                   "null",
                                                   "\xEF\xBB\xBF",
                                                   "\xFF\xFE",
                                                   "\xFE\xFF",
                                                   "\xC3\xA9",
                                                   "\xC3",
                                                   "\xF0\x9F",
                                                   std::string(2, '\0')};
  TemporaryFolder folder;
  int successes = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    std::mt19937_64 random(seed);
    std::string content = seed % 3 == 0 ? "" : seed % 3 == 1 ? "text,label\n" : "{\"text\":\"a\"}\n";
    for (size_t count = random() % 30; count > 0; --count) content += kPieces[random() % kPieces.size()];
    successes += read_every_way(folder.write("pieces", content), content.size());
  }
  EXPECT_GT(successes, 100);
}

TEST_F(ReaderFuzz, ACutFileNeverReadsAsTheWhole) {
  const std::string whole = "text,label\n\"one\n\"\"two\"\"\",pos\nthree \xE4\xB8\xAD,neg\n";
  TemporaryFolder folder;
  for (size_t size = 0; size + 4 < whole.size(); ++size) {
    const auto path = folder.write("cut.csv", whole.substr(0, size));
    std::vector<Row> rows;
    try {
      rows = test::read_rows(path);
    } catch (const DataError&) {
      continue;
    }
    EXPECT_LT(rows.size(), 2u) << size;
  }
}

}  // namespace
}  // namespace finetune
