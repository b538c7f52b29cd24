#include "finetune/report/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace finetune {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(),
                          std::string("cannot ") + action + " " + path.string());
}

}  // namespace

RunLog::RunLog(std::filesystem::path path, int64_t length) : path_(std::move(path)), length_(length) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("open", path_);
  struct stat info {};
  // A log shorter than the checkpoint remembers (deleted by hand) is kept as it is, not padded with zeros.
  if (::fstat(descriptor_, &info) == 0 && info.st_size < length_) length_ = info.st_size;
  if (::ftruncate(descriptor_, length_) != 0) fail("truncate", path_);
  if (::lseek(descriptor_, length_, SEEK_SET) < 0) fail("seek in", path_);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::write(const char* event, const Json& fields) {
  Json line{{"event", event}};
  line.update(fields);
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", path_);
    }
    done += static_cast<size_t>(count);
  }
  length_ += static_cast<int64_t>(text.size());
}

int64_t RunLog::sync() {
  if (::fsync(descriptor_) != 0) fail("fsync", path_);
  return length_;
}

}  // namespace finetune
