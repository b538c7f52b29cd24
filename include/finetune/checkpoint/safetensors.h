#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/checkpoint/named_tensor.h"
#include "finetune/core/file.h"

namespace finetune {

/// A safetensors file, mapped and checked: header size, UTF-8, no duplicate key, known dtypes, offsets
/// contiguous from 0 without hole or overlap, size = shape x dtype without overflow, string-only metadata.
/// Dtypes: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL. The format:
/// https://github.com/huggingface/safetensors#format
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType dtype = at::ScalarType::Float;
    std::vector<int64_t> sizes;
    size_t begin = 0;  ///< bytes [begin, end) of the data section
    size_t end = 0;
  };

  /// Throws `CheckpointError` naming file, byte offset, what was found and what was expected.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< in the order of their bytes
  const Entry* find(std::string_view name) const;                 ///< nullptr where there is none
  std::span<const std::byte> bytes(const Entry& entry) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Copies the entry's bytes into `destination`, which exists already, on any device, and may be a view.
  /// Shapes must be equal; floating dtypes are converted where they differ. No second copy of the tensor is
  /// made on the host or on the device: what cannot be copied straight passes through a buffer of a few MiB.
  /// Returns when the copy is done. Throws `CheckpointError` for another shape, or for dtypes that differ and
  /// are not both floating.
  void read_into(const Entry& entry, const at::Tensor& destination) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  size_t data_begin_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> by_name_;  ///< indices into `entries_`, sorted by name
  std::map<std::string, std::string> metadata_;
};

/// What a written file can be checked against.
struct FileDigest {
  size_t size = 0;
  std::string xxh3;  ///< 128 bits in hexadecimal

  bool operator==(const FileDigest&) const = default;
};

/// Writes, and fsyncs, a safetensors file with the bytes that the Python library writes for the same tensors.
/// Tensors may live on any device and be views; they pass through a small buffer. Throws `CheckpointError`
/// for a name used twice, a dtype that the format lacks, or a disk that fails or is full (path, bytes needed
/// and bytes free).
FileDigest write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                             const std::map<std::string, std::string>& metadata);

/// SHA-256 over each tensor's name and then its bytes (row-major, little-endian), sorted by name, with
/// nothing between them: 64 hexadecimal digits, the same for the same weights on any device and in any order.
/// Reads the tensors back to the host.
std::string tensors_sha256(const NamedTensors& tensors);

}  // namespace finetune
