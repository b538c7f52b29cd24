#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace finetune {

/// Streaming XXH3 (128 bits): checksums of checkpoints and cache keys. Not for secrets.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// 32 hexadecimal digits of what came so far.
  std::string hex() const;

 private:
  void* state_;
};

/// Streaming SHA-256: the hash of a run's weights, which people compare by eye and by other tools.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// 64 hexadecimal digits. Ends the stream: call once.
  std::string hex();

 private:
  void* context_;
};

}  // namespace finetune
