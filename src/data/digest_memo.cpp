#include "digest_memo.h"

#include <ctime>
#include <system_error>

#include "finetune/core/file.h"
#include "finetune/core/hash.h"

namespace finetune {
namespace {

constexpr int64_t kSecondsToSettle = 2;

std::string time_text(const timespec& time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

}  // namespace

std::optional<FileStamp> FileStamp::of(const std::filesystem::path& file) {
  struct stat info {};
  if (file == "-" || ::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return FileStamp{info.st_dev, info.st_ino, info.st_size, info.st_mtim, info.st_ctim};
}

bool FileStamp::is_settled() const {
  const int64_t now = ::time(nullptr);
  return modified.tv_sec + kSecondsToSettle < now && changed.tv_sec + kSecondsToSettle < now;
}

std::string FileStamp::text() const {
  return std::to_string(device) + " " + std::to_string(inode) + " " + std::to_string(size) + " " +
         time_text(modified) + " " + time_text(changed);
}

std::filesystem::path DigestMemo::place(const std::filesystem::path& file) const {
  Xxh3 hash;
  hash.update(std::filesystem::absolute(file).lexically_normal().native());
  return folder_ / (hash.hex() + kExtension);
}

std::optional<std::string> DigestMemo::find(const std::filesystem::path& file, const FileStamp& stamp) const {
  try {
    const std::string text = read_file(place(file)), expected = stamp.text() + "\n";
    if (text.starts_with(expected)) return text.substr(expected.size());
  } catch (const std::system_error&) {
    // Not there, which is the usual case for a new file.
  }
  return std::nullopt;
}

void DigestMemo::remember(const std::filesystem::path& file, const FileStamp& stamp,
                          const std::string& digest) const {
  try {
    write_file_atomically(place(file), stamp.text() + "\n" + digest);
  } catch (const std::system_error&) {
    // The file will be read again.
  }
}

}  // namespace finetune
