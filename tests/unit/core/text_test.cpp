#include "finetune/core/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace finetune {
namespace {

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)),
        put(0x80 | (code & 63));
  }
}

/// The slow way: decode by the lead byte's promise, and take the sequence only if encoding gives the same
/// bytes.
size_t reference_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
    size_t length = 1;
    uint32_t code = byte(0);
    if (code >= 0xF0) {
      length = 4, code &= 7;
    } else if (code >= 0xE0) {
      length = 3, code &= 15;
    } else if (code >= 0xC0) {
      length = 2, code &= 31;
    }
    if (at + length > text.size()) return at;
    for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 63u);
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return at;
    std::string encoded;
    append_utf8(encoded, code);
    if (encoded != text.substr(at, length)) return at;
    at += length;
  }
  return std::string_view::npos;
}

TEST(FindInvalidUtf8, EveryCodePoint) {
  for (uint32_t code = 0; code < 0x200000; ++code) {
    std::string text;
    append_utf8(text, code);
    const bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(find_invalid_utf8(text), valid ? std::string_view::npos : 0) << std::hex << code;
  }
}

TEST(FindInvalidUtf8, EveryPairOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(find_invalid_utf8(text), reference_invalid_utf8(text)) << a << " " << b;
    }
  }
}

TEST(FindInvalidUtf8, EveryLongSequenceAtTheEdges) {
  for (int lead = 0xE0; lead < 256; ++lead) {
    for (int second = 0; second < 256; ++second) {
      for (const int third : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
        for (const int fourth : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
          const std::string text = {static_cast<char>(lead), static_cast<char>(second),
                                    static_cast<char>(third), static_cast<char>(fourth)};
          ASSERT_EQ(find_invalid_utf8(text), reference_invalid_utf8(text))
              << lead << " " << second << " " << third;
        }
      }
    }
  }
}

TEST(FindInvalidUtf8, RandomTextsCutAndSpoilt) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) append_utf8(text, random() % (random() % 2 ? 0x80 : 0xD000));
    if (round % 2) text[random() % text.size()] = static_cast<char>(random());
    if (round % 3 == 0) text.resize(random() % text.size());
    ASSERT_EQ(find_invalid_utf8(text), reference_invalid_utf8(text)) << round;
  }
}

TEST(NearestName, TakesASlipOfThePen) {
  const std::vector<std::string> names = {"learning_rate", "weight_decay", "eps"};
  EXPECT_EQ(nearest_name("learning_rte", names), "learning_rate");
  EXPECT_EQ(nearest_name("wieght_decay", names), "weight_decay");
  EXPECT_EQ(nearest_name("epsilon", names), std::nullopt);
  EXPECT_EQ(nearest_name("completely_different", names), std::nullopt);
  EXPECT_EQ(nearest_name("eps", {}), std::nullopt);
}

TEST(NearestName, TheNearerOfTwoWins) {
  EXPECT_EQ(nearest_name("tests", {"train", "test"}), "test");
  EXPECT_EQ(nearest_name("trains", {"train", "test"}), "train");
}

TEST(JoinSome, SaysHowManyAreLeftOut) {
  EXPECT_EQ(join_some({}), "");
  EXPECT_EQ(join_some({"a"}), "a");
  EXPECT_EQ(join_some({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(join_some({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(WithThousands, GroupsDigits) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(-1234567), "-1,234,567");
  EXPECT_EQ(with_thousands(-123), "-123");
  EXPECT_EQ(with_thousands(std::numeric_limits<long long>::min()), "-9,223,372,036,854,775,808");
}

TEST(LowerAscii, ChangesLettersOfAsciiOnly) {
  EXPECT_EQ(lower_ascii("Train.CSV @[Z`"), "train.csv @[z`");
  EXPECT_EQ(lower_ascii("\xC3\x84"), "\xC3\x84");
}

}  // namespace
}  // namespace finetune
