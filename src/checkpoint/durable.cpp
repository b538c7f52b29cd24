#include "durable.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "finetune/core/file.h"
#include "finetune/core/log.h"
#include "finetune/core/text.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

void sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) throw std::system_error(error, std::generic_category(), "cannot fsync " + path.string());
}

}  // namespace

std::string describe_write_failure(const std::system_error& error, const fs::path& directory,
                                   size_t bytes_needed) {
  std::string text = std::string(error.what()) + "; " + with_thousands(static_cast<long long>(bytes_needed)) +
                     " bytes are needed";
  struct statvfs info {};
  if (::statvfs(directory.empty() ? "." : directory.c_str(), &info) == 0) {
    text += " and " + with_thousands(static_cast<long long>(info.f_bavail * info.f_frsize)) + " are free";
  }
  return text;
}

void create_directories_durably(const fs::path& directory) {
  if (directory.empty() || fs::is_directory(directory)) return;
  const fs::path parent = directory.parent_path();
  if (parent != directory) create_directories_durably(parent);
  fs::create_directory(directory);
  sync_directory(parent.empty() ? "." : parent);
}

void sync_tree(const fs::path& directory) {
  for (const auto& item : fs::directory_iterator(directory)) {
    if (item.is_symlink()) continue;
    if (item.is_directory()) {
      sync_tree(item.path());
    } else if (item.is_regular_file()) {
      sync_file(item.path());
    }
  }
  sync_directory(directory);
}

bool exchange(const fs::path& left, const fs::path& right) {
  if (::renameat2(AT_FDCWD, left.c_str(), AT_FDCWD, right.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  throw std::system_error(errno, std::generic_category(),
                          "cannot exchange " + left.string() + " and " + right.string());
}

TemporaryDirectory::TemporaryDirectory(const fs::path& parent, const std::string& name) {
  const std::string prefix = kTemporaryPrefix + name + "-" + std::to_string(::getpid()) + "-";
  // A number in use is passed over: another thread's, or that of a process with the same id in another
  // container.
  for (int number = 0;; ++number) {
    const fs::path candidate = parent / (prefix + std::to_string(number));
    if (fs::create_directory(candidate)) {
      path_ = candidate;
      return;
    }
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void remove_stale_temporaries(const fs::path& parent, const std::string& name) {
  std::vector<fs::path> stale;
  for (const auto& item : fs::directory_iterator(parent)) {
    if (item.path().filename().string().starts_with(kTemporaryPrefix + name)) stale.push_back(item.path());
  }
  for (const auto& path : stale) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
      spdlog::warn("cannot remove {}, left by a run that was killed: {}", path.string(), error.message());
  }
}

}  // namespace finetune
