#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace finetune {

/// The name prefix of what a crash may leave behind; only the holder of the run lock removes it.
inline constexpr char kTemporaryPrefix[] = ".tmp-";

/// "cannot write X: No space left on device; 1,234 bytes are needed and 56 are free". `directory` is where
/// free space is looked up.
std::string describe_write_failure(const std::system_error& error, const std::filesystem::path& directory,
                                   size_t bytes_needed);

/// Creates the folder and those above it so that their names survive a loss of power.
void create_directories_durably(const std::filesystem::path& directory);

/// fsync of every file and folder below `directory`, and of itself last.
void sync_tree(const std::filesystem::path& directory);

/// Swaps two names in one step. False where the file system cannot.
bool exchange(const std::filesystem::path& left, const std::filesystem::path& right);

/// A new folder PARENT/.tmp-NAME-PID-N that no other process or thread has; removed with all in it unless
/// `release` was called.
class TemporaryDirectory {
 public:
  TemporaryDirectory(const std::filesystem::path& parent, const std::string& name);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

/// Removes what crashed processes left in `parent` under `kTemporaryPrefix` + `name`. What cannot be removed
/// is named in a warning.
void remove_stale_temporaries(const std::filesystem::path& parent, const std::string& name);

}  // namespace finetune
