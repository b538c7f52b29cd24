#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace finetune {

/// Reads JSON token by token and knows the byte offset of each. A general parser keeps no offsets, takes the
/// last of two equal keys in silence, and builds a tree whose size a hostile file chooses.
class JsonReader {
 public:
  /// `base` is the offset of `text` in the file; messages count from the file's start.
  JsonReader(std::filesystem::path path, std::string_view text, size_t base)
      : path_(std::move(path)), text_(text), base_(base) {}

  /// The offset in the file of the next token.
  size_t offset();
  bool at_end();
  /// Takes `token` if it comes next.
  bool accept(char token);
  void expect(char token, std::string_view expected);
  std::string string(std::string_view expected);
  /// A whole number from 0 to 2^63 - 1.
  int64_t count(std::string_view expected);

  /// "'x'", "the end of the header": what comes next, for messages.
  std::string found();
  [[noreturn]] void fail(size_t offset, std::string_view found, std::string_view expected) const;

 private:
  void skip_space();
  void append_escape(std::string& out);
  uint32_t hex4();

  std::filesystem::path path_;
  std::string_view text_;
  size_t base_;
  size_t position_ = 0;
};

}  // namespace finetune
