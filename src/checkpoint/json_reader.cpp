#include "json_reader.h"

#include <limits>

#include "finetune/core/error.h"

namespace finetune {
namespace {

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

std::string byte_text(char byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  if (value >= 0x20 && value < 0x7F) return std::string("'") + byte + "'";
  return std::string("byte 0x") + kDigits[value >> 4] + kDigits[value & 15];
}

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

}  // namespace

void JsonReader::skip_space() {
  while (position_ < text_.size()) {
    const char byte = text_[position_];
    if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return;
    ++position_;
  }
}

size_t JsonReader::offset() {
  skip_space();
  return base_ + position_;
}

bool JsonReader::at_end() {
  skip_space();
  return position_ == text_.size();
}

bool JsonReader::accept(char token) {
  skip_space();
  if (position_ == text_.size() || text_[position_] != token) return false;
  ++position_;
  return true;
}

void JsonReader::expect(char token, std::string_view expected) {
  if (!accept(token)) fail(offset(), found(), expected);
}

std::string JsonReader::found() {
  skip_space();
  return position_ == text_.size() ? "the end of the header" : byte_text(text_[position_]);
}

void JsonReader::fail(size_t offset, std::string_view found, std::string_view expected) const {
  throw CheckpointError(path_.string() + ": at byte " + std::to_string(offset) + ": found " +
                        std::string(found) + ", expected " + std::string(expected) +
                        "; the file is damaged or is no safetensors file: fetch or write it again");
}

uint32_t JsonReader::hex4() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const char byte = position_ < text_.size() ? text_[position_] : '\0';
    uint32_t digit = 0;
    if (is_digit(byte)) {
      digit = static_cast<uint32_t>(byte - '0');
    } else if (byte >= 'a' && byte <= 'f') {
      digit = static_cast<uint32_t>(byte - 'a') + 10;
    } else if (byte >= 'A' && byte <= 'F') {
      digit = static_cast<uint32_t>(byte - 'A') + 10;
    } else {
      fail(base_ + position_, position_ < text_.size() ? byte_text(byte) : "the end of the header",
           "four hexadecimal digits after \\u");
    }
    value = value * 16 + digit;
  }
  return value;
}

void JsonReader::append_escape(std::string& out) {
  const size_t start = base_ + position_ - 1;
  const char kind = position_ < text_.size() ? text_[position_++] : '\0';
  switch (kind) {
    case '"':
    case '\\':
    case '/':
      return out.push_back(kind);
    case 'b':
      return out.push_back('\b');
    case 'f':
      return out.push_back('\f');
    case 'n':
      return out.push_back('\n');
    case 'r':
      return out.push_back('\r');
    case 't':
      return out.push_back('\t');
    case 'u':
      break;
    default:
      fail(start, "the escape \\ and " + byte_text(kind), "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
  }
  uint32_t code = hex4();
  if (code >= 0xDC00 && code < 0xE000)
    fail(start, "the second half of a surrogate pair", "its first half before it");
  if (code >= 0xD800 && code < 0xDC00) {
    const bool pair = text_.substr(position_, 2) == "\\u";
    position_ += pair ? 2 : 0;
    const uint32_t low = pair ? hex4() : 0;
    if (low < 0xDC00 || low >= 0xE000)
      fail(start, "the first half of a surrogate pair", "its second half after it");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(out, code);
}

std::string JsonReader::string(std::string_view expected) {
  const size_t start = offset();
  expect('"', expected);
  std::string out;
  while (position_ < text_.size()) {
    const char byte = text_[position_++];
    if (byte == '"') return out;
    if (static_cast<unsigned char>(byte) < 0x20) {
      fail(base_ + position_ - 1, byte_text(byte) + " in a string", "control characters to be escaped");
    }
    if (byte == '\\') {
      append_escape(out);
    } else {
      out.push_back(byte);
    }
  }
  fail(start, "a string that does not end", "a closing quotation mark");
}

int64_t JsonReader::count(std::string_view expected) {
  const size_t start = offset();
  if (position_ < text_.size() && text_[position_] == '-') fail(start, "a negative number", expected);
  int64_t value = 0;
  size_t digits = 0;
  while (position_ < text_.size() && is_digit(text_[position_])) {
    const int64_t digit = text_[position_] - '0';
    if (digits > 0 && value == 0) fail(start, "a number with a leading zero", expected);
    if (value > (std::numeric_limits<int64_t>::max() - digit) / 10)
      fail(start, "a number above 2^63 - 1", expected);
    value = value * 10 + digit;
    ++position_;
    ++digits;
  }
  if (digits == 0) fail(start, found(), expected);
  const char next = position_ < text_.size() ? text_[position_] : '\0';
  if (next == '.' || next == 'e' || next == 'E') fail(start, "a fraction or a power", expected);
  return value;
}

}  // namespace finetune
