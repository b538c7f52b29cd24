#include "finetune/core/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <system_error>

#include "core/temporary_folder.h"
#include "finetune/core/error.h"

namespace finetune {
namespace {

using testing::HasSubstr;

/// The message of the system_error that `action` throws; empty where it throws none.
template <class Action>
std::string failure(Action action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.what();
  }
  return "";
}

size_t num_entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

class File : public TemporaryFolderTest {};

TEST_F(File, ReadGivesEveryByte) {
  std::string content;
  for (int i = 0; i < 200000; ++i) content += static_cast<char>(i * 7 + i / 256);
  write_file_atomically(folder_ / "a", content);
  EXPECT_EQ(read_file(folder_ / "a"), content);
  const MappedFile mapped(folder_ / "a");
  EXPECT_EQ(mapped.text(), content);
  EXPECT_EQ(mapped.bytes().size(), content.size());
}

TEST_F(File, ReadNamesTheFileItCannotRead) {
  EXPECT_THAT(failure([&] { read_file(folder_ / "none"); }), HasSubstr((folder_ / "none").string()));
  EXPECT_THAT(failure([&] { read_file(folder_); }), HasSubstr("cannot read " + folder_.string()));
}

TEST_F(File, MapTakesAnEmptyFile) {
  write_file_atomically(folder_ / "empty", "");
  const MappedFile mapped(folder_ / "empty");
  EXPECT_EQ(mapped.size(), 0u);
  EXPECT_EQ(mapped.text(), "");
}

TEST_F(File, MapRefusesWhatIsNoFile) {
  EXPECT_THAT(failure([&] { MappedFile mapped(folder_ / "none"); }), HasSubstr((folder_ / "none").string()));
  EXPECT_THAT(failure([&] { MappedFile mapped(folder_); }), HasSubstr("cannot map " + folder_.string()));
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int other_end = ::open(pipe.c_str(), O_RDWR);
  EXPECT_THAT(failure([&] { MappedFile mapped(pipe); }), HasSubstr("cannot map " + pipe.string()));
  ::close(other_end);
}

TEST_F(File, MovedMappingKeepsItsAddress) {
  write_file_atomically(folder_ / "a", "first");
  write_file_atomically(folder_ / "b", "second");
  MappedFile a(folder_ / "a");
  const std::byte* address = a.bytes().data();
  MappedFile b(folder_ / "b");
  b = std::move(a);
  EXPECT_EQ(b.bytes().data(), address);
  EXPECT_EQ(b.text(), "first");
  const MappedFile c(std::move(b));
  EXPECT_EQ(c.bytes().data(), address);
  EXPECT_EQ(c.text(), "first");
}

TEST_F(File, MappingOutlivesTheName) {
  write_file_atomically(folder_ / "a", "old");
  const MappedFile mapped(folder_ / "a");
  write_file_atomically(folder_ / "a", "new content");
  EXPECT_EQ(mapped.text(), "old");
  EXPECT_EQ(read_file(folder_ / "a"), "new content");
}

TEST_F(File, OutputNamesTheFullDevice) {
  OutputFile file("/dev/full");
  const std::string message = failure([&] { file.write("x"); });
  EXPECT_THAT(message, HasSubstr("/dev/full"));
  EXPECT_THAT(message, HasSubstr("No space left"));
}

TEST_F(File, OutputTruncatesWhatWasThere) {
  write_file_atomically(folder_ / "a", "a long old content");
  OutputFile file(folder_ / "a");
  file.write("new");
  file.sync();
  file.close();
  EXPECT_EQ(read_file(folder_ / "a"), "new");
}

TEST_F(File, SyncDirectoryRefusesAFile) {
  write_file_atomically(folder_ / "a", "x");
  EXPECT_EQ(failure([&] { sync_directory(folder_); }), "");
  EXPECT_THAT(failure([&] { sync_directory(folder_ / "a"); }), HasSubstr((folder_ / "a").string()));
}

TEST_F(File, AtomicWriteReplacesAndLeavesNothingBeside) {
  write_file_atomically(folder_ / "a", "old");
  write_file_atomically(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(num_entries(folder_), 1u);
}

// A limit on the size of files makes the write itself fail half-way, for root too.
TEST_F(File, AtomicWriteThatFailsKeepsTheOldContent) {
  const auto path = folder_ / "a";
  write_file_atomically(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = failure([&] { write_file_atomically(path, std::string(1 << 20, 'x')); });
    ::_exit(message.find(path.string()) != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(num_entries(folder_), 1u);
}

TEST_F(File, AtomicWriteThatCannotRenameCleansUp) {
  std::filesystem::create_directories(folder_ / "a" / "b");
  EXPECT_THROW(write_file_atomically(folder_ / "a", "x"), std::system_error);
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "a" / "b"));
  EXPECT_EQ(num_entries(folder_), 1u);
}

/// A process that holds a lock until it is killed.
class LockHolder {
 public:
  explicit LockHolder(const std::filesystem::path& path) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      const FileLock lock(path);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char byte = 0;
    ::close(ready[1]);
    held_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  ~LockHolder() { kill(); }

  void kill() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    child_ = -1;
  }
  bool held() const { return held_; }
  pid_t process() const { return child_; }

 private:
  pid_t child_ = -1;
  bool held_ = false;
};

std::string lock_failure(const std::filesystem::path& path) {
  try {
    const FileLock lock(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(File, LockNamesTheProcessThatHoldsIt) {
  LockHolder holder(folder_ / "lock");
  ASSERT_TRUE(holder.held());
  const std::string message = lock_failure(folder_ / "lock");
  EXPECT_THAT(message, HasSubstr(folder_.string() + " is in use by another run"));
  EXPECT_THAT(message, HasSubstr("process " + std::to_string(holder.process()) + ")"));
}

TEST_F(File, LockIsFreeOnceItsProcessIsKilled) {
  LockHolder holder(folder_ / "lock");
  ASSERT_TRUE(holder.held());
  holder.kill();
  EXPECT_EQ(lock_failure(folder_ / "lock"), "");
}

TEST_F(File, LockHoldsWithinAProcessUntilItsEnd) {
  {
    const FileLock lock(folder_ / "lock");
    EXPECT_THAT(lock_failure(folder_ / "lock"), HasSubstr("process " + std::to_string(::getpid())));
  }
  EXPECT_EQ(lock_failure(folder_ / "lock"), "");
}

TEST_F(File, LockWithoutAFolderIsNamedByItsFile) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  {
    const FileLock lock("run.lock");
    EXPECT_THAT(lock_failure("run.lock"), testing::StartsWith("run.lock is in use"));
  }
  std::filesystem::current_path(before);
}

TEST_F(File, LockNeedsItsFolder) {
  EXPECT_THAT(failure([&] { FileLock lock(folder_ / "none" / "lock"); }),
              HasSubstr((folder_ / "none" / "lock").string()));
}

}  // namespace
}  // namespace finetune
