#include "finetune/core/hash.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>
#include <string>

namespace finetune {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string random_text(std::mt19937_64& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// FIPS 180-2, appendix B, and the empty message.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  std::mt19937_64 random(1);
  const std::string text = random_text(random, 10000);
  Sha256 pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::min<size_t>(random() % 200, text.size() - at);
    pieces.update(std::string_view(text).substr(at, size));
    at += size;
  }
  EXPECT_EQ(pieces.hex(), sha256(text));
}

// The empty input's value is xxHash's own (tests/sanity_test_vectors.h, seed 0, canonical form).
TEST(Xxh3, KnownVector) { EXPECT_EQ(Xxh3().hex(), "99aa06d3014798d86001c324468d497f"); }

TEST(Xxh3, PiecesGiveTheOneShotHash) {
  std::mt19937_64 random(2);
  for (const size_t size : {1, 3, 16, 17, 128, 129, 240, 241, 1024, 5000}) {
    const std::string text = random_text(random, size);
    Xxh3 pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t count = std::min<size_t>(random() % 70, text.size() - at);
      pieces.update(text.data() + at, count);
      at += count;
    }
    XXH128_canonical_t expected;
    XXH128_canonicalFromHash(&expected, XXH3_128bits(text.data(), text.size()));
    std::string digits;
    for (const unsigned char byte : expected.digest) {
      char two[3];
      std::snprintf(two, sizeof(two), "%02x", byte);
      digits += two;
    }
    EXPECT_EQ(pieces.hex(), digits) << size << " bytes";
  }
}

TEST(Xxh3, HexMayBeReadOnTheWay) {
  Xxh3 hash;
  hash.update("ab");
  const std::string before = hash.hex();
  EXPECT_EQ(hash.hex(), before);
  hash.update("c");
  Xxh3 whole;
  whole.update("abc");
  EXPECT_EQ(hash.hex(), whole.hex());
  EXPECT_NE(hash.hex(), before);
}

}  // namespace
}  // namespace finetune
