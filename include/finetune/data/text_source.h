#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "finetune/config/run_config.h"

namespace finetune {

/// Longest row a reader takes. A quote that is never closed would otherwise pull the rest of a file into
/// memory.
inline constexpr size_t kMaxRowBytes = size_t{64} << 20;

/// A file as UTF-8, through a window that moves forward: `extend` appends the next block, `consume` drops the
/// front. Memory is bounded by the window the caller keeps open plus one block.
///
/// A byte-order mark is dropped, and decides between UTF-8 and UTF-16; without one, `utf-16` is little-endian
/// unless the NUL bytes say otherwise. The path `-` is the standard input.
class TextSource {
 public:
  /// Throws `DataError` where the file cannot be opened, is a known binary format, or plainly has another
  /// encoding.
  TextSource(const std::filesystem::path& path, TextEncoding encoding);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  std::string_view window() const { return {buffer_.data() + begin_, buffer_.size() - begin_}; }
  /// The window's bytes, for decoding in place. Line feeds must be kept: they are counted when consumed.
  char* mutable_window() { return buffer_.data() + begin_; }

  /// Appends at least one byte to the window; false at the end of the file. Invalidates views of the window.
  /// Throws `DataError` with line, byte offset in the file and value where a byte does not fit the encoding;
  /// what came before it has been handed out by then.
  bool extend();

  /// Drops the first `count` bytes of the window.
  void consume(size_t count);

  /// Line of the window's first byte, from 1: one more than the line feeds before it.
  int64_t line() const { return line_; }

  /// Whether bytes were replaced in the window's first `count` bytes, or before it since the last call.
  bool take_replaced(size_t count);

  const std::filesystem::path& path() const { return path_; }

 private:
  struct BadInput {
    uint64_t offset;  ///< in the file
    std::string what;
  };

  size_t read_block();
  void refuse_foreign() const;
  void choose_encoding(TextEncoding asked);
  void decode(bool at_end);
  void decode_utf8(std::string_view bytes, bool replace, bool at_end);
  void decode_latin1(std::string_view bytes);
  void decode_utf16(std::string_view bytes, bool at_end);
  void keep(std::string_view undecoded);
  void append_code_point(uint32_t code_point);
  [[noreturn]] void throw_bad_input() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  TextEncoding encoding_ = TextEncoding::kUtf8;
  bool big_endian_ = false;
  bool at_end_ = false;
  bool first_block_ = true;  // raw_ holds what the encoding was chosen by
  bool warned_of_controls_ = false;

  std::string raw_;          // bytes read and not decoded yet
  uint64_t raw_offset_ = 0;  // of raw_'s first byte in the file
  std::string buffer_;       // decoded; the window is its part from begin_ on
  size_t begin_ = 0;
  int64_t line_ = 1;
  uint64_t consumed_ = 0;             // decoded bytes that left the window
  std::deque<uint64_t> replaced_at_;  // decoded offsets of replacements still ahead of take_replaced
  std::optional<BadInput> bad_input_;
};

/// Splits a source into lines, without their LF or CRLF.
class LineScanner {
 public:
  explicit LineScanner(TextSource& source) : source_(source) {}

  /// The next line, valid until the next call; false at the end. Throws `DataError` for a line above
  /// `kMaxRowBytes`.
  bool next(std::string_view& line);
  /// Number of the last line, from 1.
  int64_t number() const { return source_.line(); }
  /// Whether bytes were replaced in the last line. Ask once a line.
  bool take_replaced() { return source_.take_replaced(line_size_); }

 private:
  TextSource& source_;
  size_t line_size_ = 0;  // of the last line in the window, line end included
};

}  // namespace finetune
