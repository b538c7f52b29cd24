#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "finetune/core/file.h"
#include "finetune/data/token_cache.h"

namespace finetune {

// The file of one cache entry: a header, a JSON index, and the arrays, each at a multiple of 64 bytes, in the
// machine's own byte order (which the header names).

/// Why a file is no entry that can be used.
class BadCacheFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Writes the entry so that it appears whole or not at all; returns its checksum. Throws `std::system_error`.
std::string write_cache_file(const std::filesystem::path& path, const std::string& key,
                             const EncodedSplits& splits);

/// A mapped entry.
class CacheFile {
 public:
  /// Checks the header. Throws `BadCacheFile`, and `std::system_error` where the file cannot be opened.
  CacheFile(const std::filesystem::path& path, const std::string& key);

  /// What the header says of the whole file.
  const std::string& checksum() const { return checksum_; }
  /// Reads every byte. Throws `BadCacheFile` where they do not have the checksum.
  void verify() const;
  /// The arrays are shared with the mapping. Throws `BadCacheFile`.
  EncodedSplits splits() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  size_t index_size_ = 0;
  std::string checksum_;
};

}  // namespace finetune
