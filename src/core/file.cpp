#include "finetune/core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "finetune/core/error.h"

namespace finetune {
namespace {

[[noreturn]] void throw_errno(const std::string& action, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot " + action + " " + path.string());
}

int open_or_throw(const std::filesystem::path& path, int flags, const char* action) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw_errno(action, path);
  return descriptor;
}

/// Closed at the end of its scope.
struct Descriptor {
  explicit Descriptor(int descriptor) : value(descriptor) {}
  ~Descriptor() { ::close(value); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int value;
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::string content;
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  if (!unknown) content.reserve(size);
  read_in_pieces(path, [&](std::string_view piece) { content.append(piece); });
  return content;
}

void read_in_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& sink) {
  // Small enough to stay in the cache between the kernel's copy and the sink.
  constexpr size_t kPieceBytes = size_t{256} << 10;
  const Descriptor file(open_or_throw(path, O_RDONLY, "open"));
  const auto buffer = std::make_unique_for_overwrite<char[]>(kPieceBytes);
  while (true) {
    const ssize_t count = ::read(file.value, buffer.get(), kPieceBytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path);
    if (count == 0) return;
    sink({buffer.get(), static_cast<size_t>(count)});
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = open_or_throw(path, O_RDONLY, "open");
  struct stat info {};
  // A pipe has size 0 here and would pass for an empty file.
  const bool known = ::fstat(descriptor, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    const int error = !known ? errno : S_ISDIR(info.st_mode) ? EISDIR : ESPIPE;
    ::close(descriptor);
    errno = error;
    throw_errno("map", path);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(descriptor);
      errno = error;
      throw_errno("map", path);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC, "create")) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(const void* data, size_t size) {
  const char* position = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(descriptor_, position, size);
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_errno("write", path_);
    }
    position += count;
    size -= static_cast<size_t>(count);
  }
}

void OutputFile::sync() {
  // A failed fsync may drop the dirty pages, so it is never retried: the data must be taken as lost.
  if (::fsync(descriptor_) != 0) throw_errno("fsync", path_);
}

void OutputFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) throw_errno("close", path_);
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = open_or_throw(directory, O_RDONLY | O_DIRECTORY, "open folder");
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (result != 0) throw_errno("fsync folder", directory);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, std::span(&content, 1));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  // Processes and threads may replace the same file at once.
  static std::atomic<int> count{0};
  const std::filesystem::path temporary =
      path.string() + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1));
  try {
    OutputFile file(temporary);
    for (const std::string_view piece : pieces) file.write(piece);
    file.sync();
    file.close();
    std::filesystem::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  const auto parent = path.parent_path();
  sync_directory(parent.empty() ? "." : parent);
}

std::string field_of_file(const std::filesystem::path& path, const std::string& field) {
  std::ifstream stream(path);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.rfind(field, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t:", field.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

FileLock::FileLock(const std::filesystem::path& path) {
  descriptor_ = open_or_throw(path, O_RDWR | O_CREAT, "open lock");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t count = ::pread(descriptor_, holder, sizeof(holder) - 1, 0);
    ::close(descriptor_);
    if (error != EWOULDBLOCK) {
      errno = error;
      throw_errno("lock", path);
    }
    std::string who = count > 0 ? std::string(holder) : std::string();
    while (!who.empty() && (who.back() == '\n' || who.back() == ' ')) who.pop_back();
    const std::filesystem::path folder = path.parent_path();
    throw ConfigError((folder.empty() ? path : folder).string() + " is in use by another run" +
                      (who.empty() ? "" : " (process " + who + ")") +
                      "; wait for it to end, stop it, or choose another output_dir");
  }
  const std::string me = std::to_string(::getpid()) + "\n";
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, me.data(), me.size(), 0) < 0) {
    // Only the message of a second run needs the number; the lock itself holds.
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace finetune
