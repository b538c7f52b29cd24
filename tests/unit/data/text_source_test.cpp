#include "finetune/data/text_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/data_files.h"

namespace finetune {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using namespace std::string_literals;

std::string decode(const std::filesystem::path& path, TextEncoding encoding) {
  TextSource source(path, encoding);
  while (source.extend()) {
  }
  return std::string(source.window());
}

std::string decode_error(const std::filesystem::path& path, TextEncoding encoding) {
  try {
    decode(path, encoding);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(TextSource, CharactersAcrossBlocksAreKeptWhole) {
  // 3-byte and 4-byte characters after one to four ASCII bytes: some block ends inside a character whatever
  // its size.
  std::string text;
  while (text.size() < 1'000'000) text += "a\xE4\xB8\xAD\xF0\x9F\x98\x80";
  TemporaryFolder folder;
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string content = std::string(shift, 'x') + text;
    const auto path = folder.write("long.txt", content);
    EXPECT_EQ(decode(path, TextEncoding::kUtf8), content);
    EXPECT_EQ(decode(path, TextEncoding::kUtf8Replace), content);
  }
}

TEST(TextSource, Utf16AcrossBlocksEqualsUtf8) {
  std::string utf8;
  std::string utf16;
  while (utf16.size() < 900'002) {
    utf8 += "z\xF0\x9F\x98\x80\n";
    utf16 += "z\0\x3D\xD8\x00\xDE\n\0"s;
  }
  TemporaryFolder folder;
  EXPECT_EQ(decode(folder.write("plain.txt", utf16), TextEncoding::kUtf16), utf8);
  EXPECT_EQ(decode(folder.write("shifted.txt", "q\0"s + utf16), TextEncoding::kUtf16), "q" + utf8);
}

TEST(TextSource, WhatComesBeforeABadByteIsHandedOut) {
  std::string content(700'000, 'a');
  content[600'000] = '\n';
  content[650'000] = '\xFF';
  TemporaryFolder folder;
  TextSource source(folder.write("bad.txt", content), TextEncoding::kUtf8);
  std::string message;
  try {
    while (source.extend()) {
    }
  } catch (const DataError& error) {
    message = error.what();
  }
  EXPECT_EQ(source.window().size(), 650'000u);
  EXPECT_THAT(message, HasSubstr("bad.txt:2: byte 0xff at byte offset 650000 "));
}

TEST(TextSource, ByteOffsetsCountTheByteOrderMark) {
  TemporaryFolder folder;
  EXPECT_THAT(decode_error(folder.write("mark.txt",
                                        "\xEF\xBB\xBF"
                                        "ab\xFF"),
                           TextEncoding::kUtf8),
              HasSubstr("byte 0xff at byte offset 5 "));
}

TEST(TextSource, ReplacementIsOneCharacterAMaximalPart) {
  TemporaryFolder folder;
  const std::string mark = "\xEF\xBF\xBD";
  // Python: b"a\xe4\xb8b\xff\xf0\x9f\x98c\xed\xa0\x80".decode("utf-8", "replace")
  EXPECT_EQ(decode(folder.write("broken.txt",
                                "a\xE4\xB8"
                                "b\xFF\xF0\x9F\x98"
                                "c\xED\xA0\x80"),
                   TextEncoding::kUtf8Replace),
            "a" + mark + "b" + mark + mark + "c" + mark + mark + mark);
  EXPECT_EQ(decode(folder.write("cut.txt", "a\xF0\x9F"), TextEncoding::kUtf8Replace), "a" + mark);
}

TEST(TextSource, MalformedUtf16IsRefusedWithItsPlace) {
  TemporaryFolder folder;
  EXPECT_THAT(decode_error(folder.write("half.txt",
                                        "\xFF\xFE"
                                        "a\0\n\0\x3D\xD8x\0"s),
                           TextEncoding::kUtf16),
              AllOf(HasSubstr("half.txt:2: the unpaired surrogate 0xd83d at byte offset 6 "),
                    HasSubstr("not UTF-16")));
  EXPECT_THAT(decode_error(folder.write("end.txt",
                                        "\xFF\xFE"
                                        "a\0\x3D\xD8"s),
                           TextEncoding::kUtf16),
              HasSubstr("the unpaired surrogate 0xd83d at byte offset 4 "));
  EXPECT_THAT(decode_error(folder.write("low.txt", "\xFE\xFF\0a\xDE\x00"s), TextEncoding::kUtf8),
              HasSubstr("the unpaired surrogate 0xde00 at byte offset 4 "));
  EXPECT_THAT(decode_error(folder.write("odd.txt",
                                        "\xFF\xFE"
                                        "a\0b"s),
                           TextEncoding::kUtf8),
              HasSubstr("the single last byte at byte offset 4 "));
}

TEST(TextSource, Utf16WithoutMarkIsLittleEndianUnlessNulBytesSayOtherwise) {
  TemporaryFolder folder;
  EXPECT_EQ(decode(folder.write("le.txt", "\x2D\x4E\x87\x65"), TextEncoding::kUtf16),
            "\xE4\xB8\xAD\xE6\x96\x87");
  EXPECT_EQ(decode(folder.write("be.txt", "\0h\0e\0l\0l\0o"s), TextEncoding::kUtf16), "hello");
}

TEST(TextSource, MarkThatContradictsTheOptionIsRefused) {
  TemporaryFolder folder;
  const auto utf8 = folder.write("utf8.txt",
                                 "\xEF\xBB\xBF"
                                 "abc");
  EXPECT_THAT(decode_error(utf8, TextEncoding::kLatin1), HasSubstr("set data.encoding to \"utf-8\""));
  EXPECT_THAT(decode_error(utf8, TextEncoding::kUtf16), HasSubstr("set data.encoding to \"utf-8\""));
  EXPECT_THAT(decode_error(folder.write("utf16.txt",
                                        "\xFF\xFE"
                                        "a\0"s),
                           TextEncoding::kLatin1),
              HasSubstr("set data.encoding to \"utf-16\""));
  EXPECT_THAT(decode_error(folder.write("ascii.txt", "text,label\n"), TextEncoding::kUtf16),
              HasSubstr("reads as UTF-8"));
  std::string long_utf8(4095, 'a');  // its first 4096 bytes end inside a character
  while (long_utf8.size() < 5'000) long_utf8 += "\xC3\xA9";
  EXPECT_THAT(decode_error(folder.write("long.txt", long_utf8), TextEncoding::kUtf16),
              HasSubstr("reads as UTF-8"));
}

TEST(TextSource, BinaryFormatsAreNamed) {
  TemporaryFolder folder;
  EXPECT_THAT(decode_error(folder.write("a.csv", "PAR1\x15\x04"), TextEncoding::kUtf8),
              AllOf(HasSubstr("is a Parquet file"), HasSubstr("read_parquet")));
  EXPECT_THAT(decode_error(folder.write("b.csv", "\x1F\x8B\x08\0"s), TextEncoding::kUtf8),
              HasSubstr("gunzip"));
  EXPECT_THAT(decode_error(folder.write("c.csv", "PK\x03\x04"), TextEncoding::kLatin1),
              HasSubstr("spreadsheet"));
  EXPECT_THAT(decode_error(folder.write("d.csv", "\xFF\xFE\0\0a\0\0\0"s), TextEncoding::kUtf16),
              HasSubstr("UTF-32"));
}

TEST(TextSource, LinesAndReplacementsFollowTheWindow) {
  TemporaryFolder folder;
  TextSource source(folder.write("lines.txt", "one\nt\xFFo\nthree"), TextEncoding::kUtf8Replace);
  LineScanner lines(source);
  std::string_view line;
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "one");
  EXPECT_EQ(lines.number(), 1);
  EXPECT_FALSE(lines.take_replaced());
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "t\xEF\xBF\xBDo");
  EXPECT_EQ(lines.number(), 2);
  EXPECT_TRUE(lines.take_replaced());
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "three");
  EXPECT_FALSE(lines.take_replaced());
  EXPECT_FALSE(lines.next(line));
}

TEST(TextSource, APipeIsReadAsItsBytesCome) {
  TemporaryFolder folder;
  const auto path = folder.path() / "pipe.txt";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int writer = ::open(path.c_str(), O_RDWR);  // does not wait for a reader, and keeps the pipe open
  const std::string line = "the first line of a talk\n";
  ASSERT_EQ(::write(writer, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  TextSource source(path, TextEncoding::kUtf8);
  LineScanner lines(source);
  std::string_view first;
  ASSERT_TRUE(lines.next(first));  // though the pipe has neither a block's worth of bytes nor an end
  EXPECT_EQ(first, "the first line of a talk");
  ::close(writer);
  EXPECT_FALSE(lines.next(first));
}

TEST(TextSource, LineWithoutEndIsRefusedBeforeItFillsMemory) {
  TemporaryFolder folder;
  const auto path = folder.path() / "endless.csv";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, 4 * kMaxRowBytes);  // sparse: NUL bytes, no line end
  EXPECT_THAT(test::read_error(path), HasSubstr("row is longer than 64 MiB"));
  DataConfig config;
  config.format = DataFormat::kJsonl;
  EXPECT_THAT(test::read_error(path, config), HasSubstr("line is longer than 64 MiB"));
}

}  // namespace
}  // namespace finetune
