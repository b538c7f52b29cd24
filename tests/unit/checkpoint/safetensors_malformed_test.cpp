#include "checkpoint/support.h"
#include "finetune/checkpoint/safetensors.h"

namespace finetune {
namespace {

using ::testing::HasSubstr;
using testing::safetensors_bytes;

/// A file that must be refused, and the words of the refusal.
struct Malformed {
  std::string label;
  std::string bytes;
  std::vector<std::string> words;
};

std::string length_field(uint64_t length) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xFF));
  return bytes;
}

/// One F32 tensor "a" of shape [2] with its eight bytes.
const std::string kGood = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

Malformed header(std::string label, const std::string& text, std::vector<std::string> words,
                 size_t data_size = 8) {
  return {std::move(label), safetensors_bytes(text, std::string(data_size, '\1')), std::move(words)};
}

/// The tensor "a" described by `fields`, alone in a file with eight bytes of data.
Malformed entry(std::string label, const std::string& fields, std::vector<std::string> words,
                size_t data_size = 8) {
  return header(std::move(label), "{\"a\":" + fields + "}", std::move(words), data_size);
}

Malformed shape(std::string label, const std::string& sizes, std::vector<std::string> words) {
  return entry(std::move(label), R"({"dtype":"F32","data_offsets":[0,8],"shape":)" + sizes + "}",
               std::move(words));
}

Malformed offsets(std::string label, const std::string& range, std::vector<std::string> words,
                  size_t data_size = 8) {
  return entry(std::move(label), R"({"dtype":"F32","shape":[2],"data_offsets":)" + range + "}",
               std::move(words), data_size);
}

Malformed two(std::string label, const std::string& first, const std::string& second,
              std::vector<std::string> words, size_t data_size) {
  return header(std::move(label),
                R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + first +
                    R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}",
                std::move(words), data_size);
}

std::vector<Malformed> malformed_lengths() {
  return {
      {"empty file", "", {"at byte 0", "a file of 0 bytes", "at least 8"}},
      {"seven bytes", "1234567", {"at byte 0", "a file of 7 bytes"}},
      {"no header", length_field(0), {"at byte 8", "an empty header", "'{'"}},
      {"one above the cap", length_field(100'000'001), {"a header of 100000001 bytes", "at most 100000000"}},
      {"largest length",
       length_field(~uint64_t{0}),
       {"a header of 18446744073709551615 bytes", "at most 100000000"}},
      {"length beyond the file",
       length_field(3) + "{}",
       {"a header of 3 bytes in a file of 10", "truncated"}},
      {"Git LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       {"Git LFS pointer", "git lfs pull"}},
      {"zip archive", "PK\x03\x04" + std::string(40, '\0') + "{}", {"a header of", "expected"}},
  };
}

std::vector<Malformed> malformed_text() {
  return {
      header("leading space", " {" + kGood + "}", {"at byte 8", "'{'"}),
      header("a list", "[" + kGood + "]", {"at byte 8", "found '['", "'{'"}),
      header("a string", "\"{}\"", {"at byte 8", "'{'"}),
      header("null", "null", {"at byte 8", "'n'"}),
      header("byte order mark", "\xEF\xBB\xBF{}", {"at byte 8", "0xef"}),
      header("invalid byte", "{\"\xff\":0}", {"at byte 10", "not UTF-8"}),
      header("overlong form", "{\"\xc0\xaf\":0}", {"at byte 10", "not UTF-8"}),
      header("surrogate in UTF-8", "{\"\xed\xa0\x80\":0}", {"at byte 10", "not UTF-8"}),
      header("cut sequence", "{\"a\xe2\x82", {"not UTF-8"}),
      header("above U+10FFFF", "{\"\xf4\x90\x80\x80\":0}", {"at byte 10", "not UTF-8"}),
      header("open brace alone", "{", {"at byte 9", "the end of the header", "the name of a tensor"}),
      header("name alone", "{\"a\"", {"at byte 12", "the end of the header", "':'"}),
      header("colon alone", "{\"a\":", {"at byte 13", "the end of the header", "describes 'a'"}),
      header("no colon", "{\"a\" {}}", {"at byte 13", "found '{'", "':' after the name 'a'"}),
      header("trailing comma", "{" + kGood + ",}", {"found '}'", "the name of a tensor"}),
      header("two commas", "{" + kGood + ",,}", {"found ','", "the name of a tensor"}),
      header("no comma", "{" + kGood + kGood + "}", {"',' or '}' after a tensor"}),
      header("number as name", "{1:{}}", {"at byte 9", "found '1'", "the name of a tensor"}),
      header("single quotes", "{'a':{}}", {"at byte 9", "the name of a tensor"}),
      header("open string", "{\"abc", {"at byte 9", "a string that does not end"}),
      header("line break in a name", "{\"a\nb\":{}}", {"at byte 11", "byte 0x0a in a string"}),
      header("zero byte in a name", std::string("{\"a\0b\":{}}", 10),
             {"at byte 11", "byte 0x00 in a string"}),
      header("unknown escape", R"({"a\x41":{}})", {"at byte 11", "escape", "'x'"}),
      header("short unicode escape", R"({"\u12":{}})", {"found '\"'", "four hexadecimal digits"}),
      header("second half alone", R"({"\udc00":{}})", {"at byte 10", "second half of a surrogate pair"}),
      header("first half alone", R"({"\ud800":{}})", {"at byte 10", "first half of a surrogate pair"}),
      header("first half twice", R"({"\ud800\ud800":{}})", {"at byte 10", "first half of a surrogate pair"}),
      header("text after the end", "{" + kGood + "}x", {"found 'x'", "only spaces"}),
      header("second object", "{" + kGood + "}{}", {"found '{'", "only spaces"}),
      header("padded with zeros", "{" + kGood + "}" + std::string(4, '\0'), {"byte 0x00", "only spaces"}),
      header("comment", "{/* x */" + kGood + "}", {"found '/'", "the name of a tensor"}),
  };
}

std::vector<Malformed> malformed_entries() {
  return {
      entry("entry is a list", "[]", {"at byte 13", "found '['", "describes 'a'"}),
      entry("entry is null", "null", {"found 'n'", "describes 'a'"}),
      entry("entry is a string", "\"F32\"", {"describes 'a'"}),
      entry("empty entry", "{}", {"at byte 13", "no dtype for 'a'"}),
      entry("no dtype", R"({"shape":[2],"data_offsets":[0,8]})", {"no dtype for 'a'"}),
      entry("no shape", R"({"dtype":"F32","data_offsets":[0,8]})", {"no shape for 'a'"}),
      entry("no offsets", R"({"dtype":"F32","shape":[2]})", {"no data_offsets for 'a'"}),
      entry("unknown key", R"({"dtype":"F32","strides":[1]})",
            {"at byte 28", "'strides'", "dtype, shape or data_offsets"}),
      entry("dtype twice", R"({"dtype":"F32","dtype":"F32"})", {"at byte 28", "'dtype' a second time"}),
      entry("shape twice", R"({"shape":[2],"shape":[2]})", {"'shape' a second time"}),
      entry("offsets twice", R"({"data_offsets":[0,8],"data_offsets":[0,8]})",
            {"'data_offsets' a second time"}),
      entry("dtype is a number", R"({"dtype":32})",
            {"at byte 22", "found '3'", "the dtype of 'a' as a string"}),
      entry("unknown dtype", R"({"dtype":"F128"})", {"at byte 22", "'F128'", "F64, F32"}),
      entry("lower-case dtype", R"({"dtype":"f32"})", {"'f32'", "one of"}),
      entry("dtype we lack", R"({"dtype":"F8_E4M3"})", {"'F8_E4M3'", "one of"}),
      header("open entry", R"({"a":{"dtype":"F32")",
             {"found the end of the header", "',' or '}' after a value of 'a'"}),
      shape("shape is a number", "2", {"found '2'", "the shape of 'a' as a list"}),
      shape("negative size", "[-2]", {"a negative number", "a size of 'a'"}),
      shape("fraction", "[2.0]", {"a fraction or a power"}),
      shape("power", "[2e0]", {"a fraction or a power"}),
      shape("string as size", "[\"2\"]", {"a size of 'a'"}),
      shape("null as size", "[null]", {"found 'n'", "a size of 'a'"}),
      shape("nested shape", "[[2]]", {"found '['", "a size of 'a'"}),
      shape("deeply nested shape", std::string(100'000, '['), {"found '['", "a size of 'a'"}),
      shape("leading zero", "[02]", {"leading zero"}),
      shape("size of 2^63", "[9223372036854775808]", {"above 2^63 - 1"}),
      shape("size of 30 digits", "[111111111111111111111111111111]", {"above 2^63 - 1"}),
      shape("comma at the end of a shape", "[2,]", {"found ']'", "a size of 'a'"}),
      shape("open shape", "[2", {"',' or ']' in the shape of 'a'"}),
      shape("product above 64 bits", "[4294967296,4294967296]", {"a size that 64 bits can hold"}),
      shape("product hidden by a zero", "[0,4294967296,4294967296]", {"a size that 64 bits can hold"}),
      shape("bytes above 64 bits", "[4611686018427387904]", {"a size that 64 bits can hold"}),
      shape("too few elements", "[1]", {"(8 bytes)", "shape [1] and dtype F32", "expected 4 bytes"}),
      shape("too many elements", "[3]", {"(8 bytes)", "expected 12 bytes"}),
      shape("empty with bytes", "[0]", {"(8 bytes)", "expected 0 bytes"}),
  };
}

std::vector<Malformed> malformed_layout() {
  return {
      offsets("offsets are a number", "8", {"found '8'", "as [begin, end]"}),
      offsets("one offset", "[0]", {"found ']'", "as [begin, end]"}),
      offsets("three offsets", "[0,8,9]", {"found ','", "as [begin, end]"}),
      offsets("negative offset", "[-8,0]", {"a negative number", "as [begin, end]"}),
      offsets("fraction as offset", "[0,8.0]", {"a fraction or a power"}),
      offsets("begin above end", "[8,0]", {"at byte 9", "[8, 0]", "a begin that is not above the end"}),
      offsets("largest offsets", "[9223372036854775799,9223372036854775807]",
              {"truncated", "9223372036854775807 bytes"}),
      offsets("data cut", "[0,8]",
              {"a data section of 7 bytes (the file is truncated)", "at least 8 bytes for 'a'"}, 7),
      offsets("no data", "[0,8]", {"a data section of 0 bytes (the file is truncated)"}, 0),
      offsets("hole at the start", "[1,9]", {"a hole", "'a' begins at byte 1", "expected byte 0"}, 9),
      offsets("bytes at the end", "[0,8]", {"2 bytes that belong to no tensor", "the end of the file"}, 10),
      header("data without tensors", "{}", {"at byte 10", "8 bytes that belong to no tensor"}),
      two("hole between", "[0,8]", "[9,17]", {"a hole", "'b' begins at byte 9", "expected byte 8"}, 17),
      two("overlap", "[0,8]", "[7,15]", {"an overlap", "'b' begins at byte 7", "expected byte 8"}, 15),
      two("same bytes", "[0,8]", "[0,8]", {"an overlap", "'b' begins at byte 0"}, 8),
      header("name twice", "{" + kGood + "," + kGood + "}", {"at byte 62", "'a' a second time"}),
      header("name twice, once escaped",
             "{" + kGood + R"(,"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
             {"'a' a second time"}),
      header("metadata twice", R"({"__metadata__":{},"__metadata__":{},)" + kGood + "}",
             {"__metadata__ a second time"}),
      header("metadata number", R"({"__metadata__":{"step":5},)" + kGood + "}", {"found '5'", "a string"}),
      header("metadata null", R"({"__metadata__":{"step":null},)" + kGood + "}", {"found 'n'", "a string"}),
      header("metadata object", R"({"__metadata__":{"step":{}},)" + kGood + "}", {"found '{'", "a string"}),
      header("metadata is a list", R"({"__metadata__":[],)" + kGood + "}",
             {"found '['", "__metadata__ as an object"}),
      header("metadata key twice", R"({"__metadata__":{"k":"1","k":"2"},)" + kGood + "}",
             {"the metadata key 'k' a second time"}),
      header("open metadata", R"({"__metadata__":{"k":"1")", {"',' or '}' in __metadata__"}),
  };
}

TEST(MalformedSafetensors, EachIsRefusedWithPlaceAndReason) {
  const testing::fs::path path =
      testing::fs::temp_directory_path() / ("finetune-malformed-" + std::to_string(::getpid()));
  size_t count = 0;
  for (const auto& group : {malformed_lengths(), malformed_text(), malformed_entries(), malformed_layout()}) {
    for (const auto& [label, bytes, words] : group) {
      SCOPED_TRACE(label);
      testing::write_bytes(path, bytes);
      const std::string message = testing::checkpoint_error([&] { SafetensorsFile file(path); });
      EXPECT_THAT(message, HasSubstr(path.string()));
      for (const auto& word : words) EXPECT_THAT(message, HasSubstr(word));
      ++count;
    }
  }
  EXPECT_GE(count, 60U);
  testing::fs::remove(path);
}

TEST(MalformedSafetensors, TheSameFileWithoutTheFaultIsRead) {
  const testing::fs::path path =
      testing::fs::temp_directory_path() / ("finetune-wellformed-" + std::to_string(::getpid()));
  testing::write_bytes(path, safetensors_bytes("{" + kGood + "}  ", std::string(8, '\1')));
  EXPECT_EQ(SafetensorsFile(path).entries().size(), 1U);
  testing::fs::remove(path);
}

}  // namespace
}  // namespace finetune
