#include "zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "finetune/core/error.h"

namespace finetune {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64Locator = 0x07064b50, kEnd64 = 0x06064b50;
constexpr size_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kElsewhere = 0xffffffff;  // the value is in the entry's zip64 field

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::map<std::string, std::string_view> read() {
    find_directory();
    std::map<std::string, std::string_view> members;
    uint64_t position = directory_;
    for (uint64_t i = 0; i < count_; ++i) {
      auto [name, content] = entry(position);
      if (!members.emplace(std::move(name), content).second)
        fail(position, "a name that an earlier member has, too");
    }
    return members;
  }

 private:
  [[noreturn]] void fail(uint64_t offset, const std::string& found) const {
    throw CheckpointError(path_ + ": the zip archive has " + found + " (byte " + std::to_string(offset) +
                          "); the file is damaged, or was changed. Copy or save it again");
  }

  template <typename T>
  T number(uint64_t offset) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) fail(offset, "a header beyond its end");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view piece(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) fail(offset, "a member beyond its end");
    return bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
  }

  void find_directory() {
    const uint64_t first =
        bytes_.size() > kEndSize + kLongestComment ? bytes_.size() - kEndSize - kLongestComment : 0;
    std::optional<uint64_t> end;
    for (uint64_t at = bytes_.size() < kEndSize ? 0 : bytes_.size() - kEndSize + 1; at-- > first;) {
      if (number<uint32_t>(at) != kEnd) continue;
      end = at;
      break;
    }
    if (!end) {
      throw CheckpointError(
          path_ +
          ": incomplete file: it begins as a zip archive, but the directory that closes one is "
          "not there. Copy or download it again");
    }
    count_ = number<uint16_t>(*end + 10);
    directory_ = number<uint32_t>(*end + 16);
    const bool has_locator = *end >= kLocatorSize && number<uint32_t>(*end - kLocatorSize) == kEnd64Locator;
    if (has_locator) {
      const auto end64 = number<uint64_t>(*end - kLocatorSize + 8);
      if (number<uint32_t>(end64) != kEnd64) fail(end64, "no zip64 directory where it says one is");
      piece(end64, kEnd64Size);
      count_ = number<uint64_t>(end64 + 32);
      directory_ = number<uint64_t>(end64 + 48);
    }
    if (directory_ > bytes_.size() || count_ > (bytes_.size() - directory_) / kEntrySize)
      fail(*end, "a directory that lies beyond its end");
  }

  /// Sizes and place of a member, those of zip64 included.
  struct Span {
    uint64_t stored, size, local;
  };

  Span span_of(uint64_t entry, uint16_t name_size, uint16_t extra_size) const {
    Span span{number<uint32_t>(entry + 20), number<uint32_t>(entry + 24), number<uint32_t>(entry + 42)};
    uint64_t at = entry + kEntrySize + name_size;
    const uint64_t end = at + extra_size;
    while (at + 4 <= end) {
      const auto id = number<uint16_t>(at), size = number<uint16_t>(at + 2);
      uint64_t value = at + 4;
      if (id == 1) {
        for (uint64_t* field : {&span.size, &span.stored, &span.local}) {
          if (*field != kElsewhere) continue;
          if (value + 8 > at + 4 + size) fail(at, "a zip64 field that is too short");
          *field = number<uint64_t>(value);
          value += 8;
        }
      }
      at += 4 + size;
    }
    return span;
  }

  std::pair<std::string, std::string_view> entry(uint64_t& position) const {
    if (number<uint32_t>(position) != kDirectoryEntry) fail(position, "no directory entry where one belongs");
    const auto flags = number<uint16_t>(position + 8), method = number<uint16_t>(position + 10),
               name_size = number<uint16_t>(position + 28), extra_size = number<uint16_t>(position + 30),
               comment_size = number<uint16_t>(position + 32);
    std::string name(piece(position + kEntrySize, name_size));
    const Span span = span_of(position, name_size, extra_size);
    if ((flags & 1) != 0) fail(position, "an encrypted member, '" + name + "'");
    if (method != 0) {
      throw CheckpointError(path_ + ": the member '" + name +
                            "' is compressed, which torch.save never does (byte " + std::to_string(position) +
                            "); load and save it with torch, or zip it again without compression (zip -0)");
    }
    if (span.stored != span.size) fail(position, "two sizes for '" + name + "'");
    const uint64_t local = span.local;
    if (number<uint32_t>(local) != kLocalHeader || number<uint16_t>(local + 8) != method ||
        number<uint16_t>(local + 26) != name_size || piece(local + kLocalSize, name_size) != name) {
      fail(local, "a header that differs from the directory's entry for '" + name + "'");
    }
    const auto content = piece(local + kLocalSize + name_size + number<uint16_t>(local + 28), span.size);
    position += kEntrySize + name_size + extra_size + comment_size;
    return {std::move(name), content};
  }

  std::string_view bytes_;
  const std::string& path_;
  uint64_t directory_ = 0;
  uint64_t count_ = 0;
};

}  // namespace

std::map<std::string, std::string_view> read_zip(std::string_view bytes, const std::string& path) {
  return ZipReader(bytes, path).read();
}

}  // namespace finetune
