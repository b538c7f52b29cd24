#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>

namespace finetune {

/// What tells a file that was changed from one that was not. Whoever writes to a file changes its times.
struct FileStamp {
  dev_t device;
  ino_t inode;
  off_t size;
  timespec modified;
  timespec changed;

  /// Nothing unless it is a regular file.
  static std::optional<FileStamp> of(const std::filesystem::path& file);
  /// A file that is being written might change again and keep its times, which have ticks of some
  /// milliseconds.
  bool is_settled() const;
  /// One line of text.
  std::string text() const;
  bool operator==(const FileStamp& other) const { return text() == other.text(); }
};

/// Digests of files, remembered on disk for as long as the files' stamps stay the same, so that large files
/// need not be read again to know what is in them. It only saves time: what cannot be kept is forgotten.
class DigestMemo {
 public:
  /// A folder that is there.
  explicit DigestMemo(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::optional<std::string> find(const std::filesystem::path& file, const FileStamp& stamp) const;
  void remember(const std::filesystem::path& file, const FileStamp& stamp, const std::string& digest) const;

  static constexpr const char* kExtension = ".digest";
  /// Where the file's digest is kept.
  std::filesystem::path place(const std::filesystem::path& file) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace finetune
