#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/checkpoint/named_tensor.h"
#include "finetune/core/file.h"

namespace finetune {

/// A safetensors file, mapped and checked: header size, UTF-8, no duplicate key, known dtypes, offsets contiguous from 0 without
/// hole or overlap, size = shape x dtype without overflow, string-only metadata.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> sizes;
    size_t begin = 0;  ///< bytes [begin, end) of the data section
    size_t end = 0;
  };

  /// Throws `CheckpointError` naming file, byte offset, what was found and what was expected.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< in file order
  const Entry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const Entry& entry) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Copies the entry's bytes into `destination`, which exists already, on any device, and may be a view. Shapes must be equal;
  /// floating dtypes are converted where they differ. No second copy of the tensor is made on the device.
  void read_into(const Entry& entry, const at::Tensor& destination) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  size_t data_begin_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// What a written file can be checked against.
struct FileDigest {
  size_t size = 0;
  std::string xxh3;
};

/// Writes, and fsyncs, a safetensors file. Tensors may live on any device; they pass through a small buffer.
FileDigest write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                             const std::map<std::string, std::string>& metadata);

/// SHA-256 over names and bytes of the tensors, sorted by name: equal exactly where the weights are.
std::string tensors_sha256(const NamedTensors& tensors);

}  // namespace finetune
