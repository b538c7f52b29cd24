#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace finetune {

/// The whole file. Throws `std::system_error` with the path in its message.
std::string read_file(const std::filesystem::path& path);

/// Hands the whole file to `sink`, a piece at a time. Throws as `read_file`.
void read_in_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& sink);

/// A file mapped read-only. The mapping lives as long as the object; moving it keeps the address.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws `std::system_error` with the path in its message.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A file being written through a file descriptor. Every failed call throws `std::system_error` naming the
/// path; a short write is continued, EINTR retried. `close()` must be called: the destructor closes without a
/// check.
class OutputFile {
 public:
  /// Creates or truncates.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void sync();  ///< fsync
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// fsync of a folder: makes names created, renamed or removed in it durable.
void sync_directory(const std::filesystem::path& directory);

/// Replaces `path` by `content` so that a reader, or a machine that loses power, sees the old or the new file
/// and never a part: temporary file beside it, fsync, rename, fsync of the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
/// The same for content that lies in several pieces.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces);

/// What follows `field` and its colon on the first line that begins with it, as in /proc/cpuinfo; "" where
/// there is no such line or file.
std::string field_of_file(const std::filesystem::path& path, const std::string& field);

/// An exclusive `flock` on a file, held until destruction. The kernel drops it when the process dies, however
/// it dies.
class FileLock {
 public:
  /// Creates the file if needed. Throws `ConfigError` with the holder's process id when it is taken.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace finetune
