#include "finetune/data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "finetune/core/log.h"
#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "foreign_format.h"

namespace finetune {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr size_t kMostSignatureBytes = 16;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
constexpr std::string_view kUtf16LittleMark = "\xFF\xFE";
constexpr std::string_view kUtf16BigMark = "\xFE\xFF";

const char* encoding_name(TextEncoding encoding) {
  switch (encoding) {
    case TextEncoding::kUtf8:
      return "utf-8";
    case TextEncoding::kUtf8Replace:
      return "utf-8-replace";
    case TextEncoding::kLatin1:
      return "latin-1";
    case TextEncoding::kUtf16:
      return "utf-16";
  }
  return "?";
}

std::string hexadecimal(unsigned value, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x", digits, value);
  return text;
}

/// The longest start of a well-formed sequence at the front of `bytes`, which does not begin with a whole
/// one.
struct BrokenSequence {
  size_t length;
  bool cut;  ///< well-formed as far as it goes: more bytes could complete it
};

BrokenSequence broken_sequence(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0) return {1, false};
  const unsigned char lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t k = 1; k < length; ++k) {
    if (k >= bytes.size()) return {k, true};
    if (at(k) < (k == 1 ? lowest : 0x80) || at(k) > (k == 1 ? highest : 0xBF)) return {k, false};
  }
  return {length, false};
}

/// Which half of each pair of bytes is mostly NUL, as in UTF-16 of Western text.
enum class NulPattern { kNone, kEveryEven, kEveryOdd };

NulPattern nul_pattern(std::string_view bytes) {
  size_t nuls[2] = {0, 0};
  const size_t pairs = bytes.size() / 2;
  for (size_t i = 0; i < 2 * pairs; ++i) nuls[i % 2] += bytes[i] == '\0';
  const auto dominates = [&](size_t half) {
    return nuls[half] >= 4 && nuls[half] * 10 >= pairs * 4 && nuls[1 - half] * 20 <= nuls[half];
  };
  return dominates(1) ? NulPattern::kEveryOdd : dominates(0) ? NulPattern::kEveryEven : NulPattern::kNone;
}

struct Signature {
  std::string_view bytes;
  const char* name;
  const char* remedy;
};

using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {"\x1F\x8B\x08"sv, "compressed by gzip", "unpack it with: gunzip FILE"},
    {"\x28\xB5\x2F\xFD"sv, "compressed by zstd", "unpack it with: unzstd FILE"},
    {"\xFD\x37\x7A\x58\x5A\0"sv, "compressed by xz", "unpack it with: unxz FILE"},
    {"BZh91AY&SY"sv, "compressed by bzip2", "unpack it with: bunzip2 FILE"},
    {"PK\x03\x04"sv, "a ZIP archive or a spreadsheet", "unpack it, or export the sheet as CSV"},
    {"SQLite format 3\0"sv, "an SQLite database", "export the table as CSV"},
    {"\xFF\xFE\0\0"sv, "UTF-32", "convert it with: iconv -f UTF-32 -t UTF-8 IN > OUT"},
    {"\0\0\xFE\xFF"sv, "UTF-32", "convert it with: iconv -f UTF-32 -t UTF-8 IN > OUT"},
};

}  // namespace

TextSource::TextSource(const std::filesystem::path& path, TextEncoding encoding) : path_(path) {
  do {
    descriptor_ =
        path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) throw_data_error(path_, 0, std::string("cannot be opened: ") + std::strerror(errno));
  try {
    // A pipe may hand out less than it takes to know a file by its first bytes.
    while (raw_.size() < kMostSignatureBytes && read_block() > 0) {
    }
    choose_encoding(encoding);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

TextSource::~TextSource() { ::close(descriptor_); }

size_t TextSource::read_block() {
  const size_t size = raw_.size();
  raw_.resize(size + kBlockBytes);
  ssize_t count = -1;
  do {
    count = ::read(descriptor_, raw_.data() + size, kBlockBytes);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_data_error(path_, 0, std::string("cannot be read: ") + std::strerror(errno));
  raw_.resize(size + static_cast<size_t>(count));
  if (count == 0) at_end_ = true;
  return static_cast<size_t>(count);
}

void TextSource::refuse_foreign() const {
  const auto sheet = foreign_format_by_name(path_);
  std::optional<ForeignFormat> format;
  if (raw_.starts_with("PAR1\x15")) format = ForeignFormat::kParquet;
  if (raw_.starts_with("ARROW1\0"sv)) format = ForeignFormat::kArrowFile;
  if (raw_.starts_with("\xFF\xFF\xFF\xFF")) format = ForeignFormat::kArrowStream;
  if (raw_.starts_with("PK\x03\x04") && sheet == ForeignFormat::kSpreadsheet) format = sheet;
  if (raw_.starts_with("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")) format = ForeignFormat::kSpreadsheet;
  if (format) throw_data_error(path_, 0, foreign_format_message(*format, path_));
}

void TextSource::choose_encoding(TextEncoding asked) {
  refuse_foreign();
  for (const Signature& signature : kSignatures) {
    if (raw_.starts_with(signature.bytes)) {
      throw_data_error(path_, 0,
                       std::string("is ") + signature.name + ", expected text; " + signature.remedy);
    }
  }
  encoding_ = asked;
  const bool utf8_mark = raw_.starts_with(kUtf8Mark);
  const bool utf16_mark = raw_.starts_with(kUtf16LittleMark) || raw_.starts_with(kUtf16BigMark);
  const bool wrong_mark = (utf8_mark && (asked == TextEncoding::kUtf16 || asked == TextEncoding::kLatin1)) ||
                          (utf16_mark && asked == TextEncoding::kLatin1);
  if (wrong_mark) {
    const std::string found = utf8_mark ? "utf-8" : "utf-16";
    throw_data_error(path_, 1,
                     "begins with the byte-order mark of " + found + ", but data.encoding is \"" +
                         encoding_name(asked) + "\"; set data.encoding to \"" + found + "\"");
  }
  if (utf8_mark || utf16_mark) {
    if (utf16_mark) encoding_ = TextEncoding::kUtf16;
    big_endian_ = raw_.starts_with(kUtf16BigMark);
    raw_offset_ = utf8_mark ? 3 : 2;
    raw_.erase(0, raw_offset_);
    return;
  }
  const std::string_view start = std::string_view(raw_).substr(0, 4096);
  const NulPattern pattern = nul_pattern(start);
  if (asked == TextEncoding::kUtf16) {
    big_endian_ = pattern == NulPattern::kEveryEven;
    const size_t invalid = find_invalid_utf8(start);
    const bool cut = raw_.size() > start.size() && invalid < start.size() && start.size() - invalid < 4;
    const bool looks_utf8 = !start.empty() && start.find('\0') == std::string_view::npos &&
                            (invalid == std::string_view::npos || cut);
    if (looks_utf8) {
      throw_data_error(path_, 1,
                       "data.encoding is \"utf-16\", but the file has no byte-order mark and reads as UTF-8; "
                       "set data.encoding to \"utf-8\"");
    }
  } else if (pattern != NulPattern::kNone) {
    throw_data_error(
        path_, 1,
        "NUL bytes in every second place: the file looks like UTF-16 without a byte-order mark, but "
        "data.encoding is \"" +
            std::string(encoding_name(asked)) +
            "\"; set data.encoding to \"utf-16\", or convert the file to UTF-8");
  }
}

bool TextSource::extend() {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const size_t before = buffer_.size();
  while (buffer_.size() == before) {
    if (bad_input_) throw_bad_input();
    if (at_end_ && raw_.empty()) return false;
    if (!at_end_ && !first_block_) read_block();
    first_block_ = false;
    decode(at_end_);
  }
  return true;
}

void TextSource::consume(size_t count) {
  const char* front = buffer_.data() + begin_;
  line_ += std::count(front, front + count, '\n');
  begin_ += count;
  consumed_ += count;
}

bool TextSource::take_replaced(size_t count) {
  bool any = false;
  while (!replaced_at_.empty() && replaced_at_.front() < consumed_ + count) {
    replaced_at_.pop_front();
    any = true;
  }
  return any;
}

void TextSource::decode(bool at_end) {
  const std::string block = std::move(raw_);
  raw_.clear();
  switch (encoding_) {
    case TextEncoding::kUtf8:
    case TextEncoding::kUtf8Replace:
      return decode_utf8(block, encoding_ == TextEncoding::kUtf8Replace, at_end);
    case TextEncoding::kLatin1:
      return decode_latin1(block);
    case TextEncoding::kUtf16:
      return decode_utf16(block, at_end);
  }
}

void TextSource::keep(std::string_view undecoded) { raw_.assign(undecoded); }

void TextSource::decode_utf8(std::string_view bytes, bool replace, bool at_end) {
  while (!bytes.empty()) {
    const size_t valid = std::min(find_invalid_utf8(bytes), bytes.size());
    buffer_.append(bytes.substr(0, valid));
    raw_offset_ += valid;
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const BrokenSequence broken = broken_sequence(bytes);
    if (broken.cut && !at_end) return keep(bytes);
    if (!replace) {
      bad_input_ = BadInput{raw_offset_, "byte " + hexadecimal(static_cast<unsigned char>(bytes[0]), 2) +
                                             " at byte offset " + std::to_string(raw_offset_) +
                                             " of the file is not UTF-8"};
      return;
    }
    replaced_at_.push_back(consumed_ + buffer_.size() - begin_);
    buffer_.append(kReplacement);
    raw_offset_ += broken.length;
    bytes.remove_prefix(broken.length);
  }
}

void TextSource::decode_latin1(std::string_view bytes) {
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x80 && value < 0xA0 && !warned_of_controls_) {
      warned_of_controls_ = true;
      spdlog::warn(
          "{}: byte {} is a control character in Latin-1; if the file is Windows-1252, convert it with: "
          "iconv -f WINDOWS-1252 -t UTF-8 IN > OUT",
          path_.string(), hexadecimal(value, 2));
    }
    append_code_point(value);
  }
  raw_offset_ += bytes.size();
}

void TextSource::decode_utf16(std::string_view bytes, bool at_end) {
  const auto unit_at = [&](size_t i) -> uint32_t {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    return big_endian_ ? (uint32_t{first} << 8 | second) : (uint32_t{second} << 8 | first);
  };
  const auto refuse = [&](size_t i, const std::string& what) {
    bad_input_ = BadInput{raw_offset_ + i, what + " at byte offset " + std::to_string(raw_offset_ + i) +
                                               " of the file is not UTF-16"};
  };
  size_t i = 0;
  for (; i + 2 <= bytes.size(); i += 2) {
    uint32_t code_point = unit_at(i);
    if (code_point >= 0xD800 && code_point < 0xE000) {
      const bool high = code_point < 0xDC00;
      if (high && i + 4 > bytes.size() && !at_end) break;
      const uint32_t low = high && i + 4 <= bytes.size() ? unit_at(i + 2) : 0;
      if (low < 0xDC00 || low > 0xDFFF)
        return refuse(i, "the unpaired surrogate " + hexadecimal(code_point, 4));
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
      i += 2;
    }
    append_code_point(code_point);
  }
  if (i < bytes.size() && at_end) return refuse(i, "the single last byte");
  raw_offset_ += i;
  keep(bytes.substr(i));
}

void TextSource::append_code_point(uint32_t code_point) {
  const auto continuation = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (code_point < 0x80) {
    buffer_ += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    buffer_ += static_cast<char>(0xC0 | code_point >> 6);
    buffer_ += continuation(code_point);
  } else if (code_point < 0x10000) {
    buffer_ += static_cast<char>(0xE0 | code_point >> 12);
    buffer_ += continuation(code_point >> 6);
    buffer_ += continuation(code_point);
  } else {
    buffer_ += static_cast<char>(0xF0 | code_point >> 18);
    buffer_ += continuation(code_point >> 12);
    buffer_ += continuation(code_point >> 6);
    buffer_ += continuation(code_point);
  }
}

void TextSource::throw_bad_input() const {
  const int64_t line =
      line_ + std::count(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), buffer_.end(), '\n');
  std::string remedy =
      encoding_ == TextEncoding::kUtf16
          ? "repair the file, or convert it to UTF-8"
          : "convert the file to UTF-8 (iconv -f WINDOWS-1252 -t UTF-8 IN > OUT), or set data.encoding to "
            "\"latin-1\", \"utf-16\" or \"utf-8-replace\"";
  throw_data_error(path_, line, bad_input_->what + "; " + remedy);
}

bool LineScanner::next(std::string_view& line) {
  source_.consume(line_size_);
  line_size_ = 0;
  size_t end = std::string_view::npos;
  size_t searched = 0;
  while ((end = source_.window().find('\n', searched)) == std::string_view::npos) {
    searched = source_.window().size();
    if (searched > kMaxRowBytes) {
      throw_data_error(source_.path(), source_.line(),
                       "line is longer than " + std::to_string(kMaxRowBytes >> 20) +
                           " MiB, expected one row a line; check the line ends");
    }
    if (!source_.extend()) break;
  }
  const std::string_view window = source_.window();
  if (window.empty()) return false;
  line = window.substr(0, end);
  line_size_ = end == std::string_view::npos ? window.size() : end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace finetune
