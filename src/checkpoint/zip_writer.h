#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace finetune {

/// CRC-32 of zip (polynomial 0xEDB88320), a block at a time.
class Crc32 {
 public:
  void update(const void* data, size_t size);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xffffffff;
};

/// Writes an archive of stored members, each beginning at a multiple of 64 bytes as torch.save's do, with
/// zip64 fields where sizes need them. The format: PKWARE's APPNOTE 6.3.10, 4.3.
class ZipWriter {
 public:
  using Sink = std::function<void(const void* data, size_t size)>;
  /// Hands a member's bytes, in blocks, to the sink it is given.
  using Source = std::function<void(const Sink& sink)>;

  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  /// `source` is called twice, for the checksum and for the bytes, and must give `size` bytes each time.
  void add(const std::string& name, uint64_t size, const Source& source);
  void add(const std::string& name, std::string_view content);
  /// Writes the directory. Must be called.
  void finish();

 private:
  struct Member {
    std::string name;
    uint64_t size, offset;
    uint32_t crc;
  };

  void emit(std::string_view bytes);

  Sink sink_;
  std::vector<Member> members_;
  uint64_t position_ = 0;
};

}  // namespace finetune
