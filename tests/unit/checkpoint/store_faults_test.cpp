#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <set>

#include "checkpoint/support.h"
#include "checkpoint/syscall_tracer.h"
#include "finetune/checkpoint/store.h"

namespace finetune {
namespace {

using ::testing::AllOf;
using testing::CapturedLog;
using testing::example_snapshot;
using testing::expect_restores;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_traced;
using testing::strange_names;
using testing::Syscall;
using testing::Verdict;
using testing::fs::path;

constexpr int kRefused = 4;  // what a child exits with where a save throws CheckpointError

/// Saves of a run that has steps 10 (the best) and 20, and may be stopped anywhere in saving 30.
class CheckpointFaultTest : public testing::FolderTest {
 protected:
  void SetUp() override {
    CheckpointStore first(directory_, {3, true});
    first.save(example_snapshot(10), true);
    first.save(example_snapshot(20), false);
    testing::fs::copy(directory_, pristine_, kCopy);
  }

  void start_over() {
    testing::fs::remove_all(directory_);
    testing::fs::copy(pristine_, directory_, kCopy);
  }

  /// Saves step 30 and lets retention drop step 10, unless it is the best.
  int save_step_30(bool is_best) const {
    try {
      CheckpointStore(directory_, {2, true}).save(example_snapshot(30), is_best);
      return 0;
    } catch (const CheckpointError&) {
      return kRefused;
    } catch (...) {
      return 1;
    }
  }

  /// Whatever happened: the newest good checkpoint is whole, and the next save and resume work. Returns its
  /// step.
  int64_t expect_recovers() {
    CapturedLog log;
    const auto checkpoint = CheckpointStore(directory_, {2, true}).newest_valid();
    if (!checkpoint) {
      ADD_FAILURE() << "no checkpoint is left: " << log.text();
      return 0;
    }
    expect_restores(*checkpoint);
    EXPECT_THAT(strange_names(directory_), IsEmpty());
    EXPECT_EQ(log.text(), "");
    return checkpoint->step;
  }

  static constexpr auto kCopy =
      testing::fs::copy_options::recursive | testing::fs::copy_options::copy_symlinks;
  path directory_ = folder_ / "checkpoints";
  path pristine_ = folder_ / "pristine";
};

/// The trace's lines without what differs from run to run.
std::string shortened(std::string text, const path& directory) {
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  replace_all(directory.string() + "/", "");
  replace_all(directory.string(), "checkpoints");
  for (const std::string name :
       {".tmp-step-00000030", ".tmp-latest", ".tmp-best", ".tmp-dropped-step-00000010"}) {
    const size_t start = text.find(name);
    if (start == std::string::npos) continue;
    size_t end = start + name.size();
    while (end < text.size() && (text[end] == '-' || (text[end] >= '0' && text[end] <= '9'))) ++end;
    text.replace(start, end - start, name);
  }
  return text;
}

TEST_F(CheckpointFaultTest, CommitsInTheOrderThatSurvivesALossOfPower) {
  if (!testing::why_no_tracing().empty()) GTEST_SKIP() << testing::why_no_tracing();
  std::vector<std::string> trace;
  const std::set<std::string> ordered = {"mkdir", "fsync", "rename", "symlink", "exchange"};
  const auto result = run_traced([&] { return save_step_30(true); },
                                 [&](const Syscall& call) {
                                   if (ordered.contains(call.name)) {
                                     trace.push_back(call.name + " " + shortened(call.what, directory_));
                                   }
                                   return Verdict{};
                                 });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(trace, ::testing::ElementsAre(
                         "mkdir .tmp-step-00000030", "fsync .tmp-step-00000030/model.safetensors",
                         "fsync .tmp-step-00000030/optimizer.safetensors",
                         "fsync .tmp-step-00000030/state.json", "fsync .tmp-step-00000030/MANIFEST.json",
                         "fsync .tmp-step-00000030", "rename .tmp-step-00000030 -> step-00000030",
                         "fsync checkpoints", "symlink step-00000030 -> .tmp-latest",
                         "rename .tmp-latest -> latest", "symlink step-00000030 -> .tmp-best",
                         "rename .tmp-best -> best", "fsync checkpoints", "mkdir .tmp-dropped-step-00000010",
                         "rename step-00000010 -> .tmp-dropped-step-00000010/checkpoint"));
}

TEST_F(CheckpointFaultTest, KilledBeforeEverySystemCallItResumesFromTheOldOrTheNew) {
  if (!testing::why_no_tracing().empty()) GTEST_SKIP() << testing::why_no_tracing();
  std::map<int64_t, int> resumed_from;
  for (int number = 0;; ++number) {
    start_over();
    bool acknowledged = false;
    const auto result =
        run_traced([&] { return save_step_30(number % 2 == 0); },
                   [&](const Syscall& call) {
                     acknowledged |= call.name == "mkdir" && call.what.find("dropped") != std::string::npos;
                     const bool now = call.number == number;
                     return Verdict{now ? Verdict::Kind::kKill : Verdict::Kind::kGoOn, 0};
                   });
    const int64_t step = expect_recovers();
    EXPECT_TRUE(step == 20 || step == 30) << "killed at system call " << number;
    if (acknowledged) {
      EXPECT_EQ(step, 30) << "killed at system call " << number;
    }
    ++resumed_from[step];
    EXPECT_EQ(save_step_30(false), 0);
    EXPECT_EQ(expect_recovers(), 30);
    if (HasFailure() || !result.killed) break;
  }
  EXPECT_GT(resumed_from[20], 20);
  EXPECT_GT(resumed_from[30], 5);
}

TEST_F(CheckpointFaultTest, KilledWhileADamagedOneIsReplacedItResumesFromAGoodOne) {
  if (!testing::why_no_tracing().empty()) GTEST_SKIP() << testing::why_no_tracing();
  ASSERT_EQ(save_step_30(false), 0);
  testing::write_bytes(directory_ / "step-00000030" / "state.json", "{}");
  testing::fs::remove_all(pristine_);
  testing::fs::copy(directory_, pristine_, kCopy);
  bool finished = false;
  for (int number = 0; !finished && !HasFailure(); ++number) {
    start_over();
    finished = !run_traced([&] { return save_step_30(false); },
                           [&](const Syscall& call) {
                             const bool now = call.number == number;
                             return Verdict{now ? Verdict::Kind::kKill : Verdict::Kind::kGoOn, 0};
                           })
                    .killed;
    CapturedLog log;
    const auto checkpoint = CheckpointStore(directory_, {2, true}).newest_valid();
    ASSERT_TRUE(checkpoint) << "killed at system call " << number;
    expect_restores(*checkpoint);
    EXPECT_GE(checkpoint->step, 20);
  }
}

TEST_F(CheckpointFaultTest, EveryFailingSystemCallIsReportedOrHarmless) {
  if (!testing::why_no_tracing().empty()) GTEST_SKIP() << testing::why_no_tracing();
  const std::set<std::string> faulted = {"create", "open",   "write",   "fsync", "close",
                                         "mkdir",  "rename", "symlink", "remove"};
  int refused = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int number = 0;; ++number) {
      start_over();
      int seen = 0;
      std::string where;
      const auto result = run_traced([&] { return save_step_30(true); },
                                     [&](const Syscall& call) {
                                       if (!faulted.contains(call.name) || seen++ != number) return Verdict{};
                                       where = call.name + " " + call.what;
                                       return Verdict{Verdict::Kind::kFail, error};
                                     });
      SCOPED_TRACE(where + ": " + std::strerror(error));
      ASSERT_FALSE(result.killed);
      EXPECT_TRUE(result.exit_code == 0 || result.exit_code == kRefused) << result.exit_code;
      // A failed fsync is never taken for success.
      if (where.starts_with("fsync") || where.starts_with("write")) {
        EXPECT_EQ(result.exit_code, kRefused);
      }
      if (result.exit_code == kRefused) {
        EXPECT_THAT(strange_names(directory_), IsEmpty());
      }
      const int64_t step = expect_recovers();
      EXPECT_TRUE(step == 30 || (step == 20 && result.exit_code == kRefused));
      refused += result.exit_code == kRefused ? 1 : 0;
      if (where.empty() || HasFailure()) break;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST_F(CheckpointFaultTest, InterruptedSystemCallsAreTriedAgain) {
  if (!testing::why_no_tracing().empty()) GTEST_SKIP() << testing::why_no_tracing();
  for (const std::string name : {"create", "write"}) {
    start_over();
    bool once = false;
    const auto result = run_traced([&] { return save_step_30(true); },
                                   [&](const Syscall& call) {
                                     if (call.name != name || std::exchange(once, true)) return Verdict{};
                                     return Verdict{Verdict::Kind::kFail, EINTR};
                                   });
    EXPECT_TRUE(once);
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_EQ(expect_recovers(), 30);
  }
}

TEST_F(CheckpointFaultTest, AFileThatMayNotGrowIsReportedWithPathNeedAndFreeBytes) {
  Snapshot large = example_snapshot(30);
  large.model.push_back({"large", at::ones({100, 1000})});
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = testing::checkpoint_error([&] {
    CheckpointStore(directory_, {2, true}).save(large, false);
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message,
              AllOf(HasSubstr("step-00000030"), HasSubstr("model.safetensors"), HasSubstr("File too large"),
                    HasSubstr("bytes are needed and"), HasSubstr("are free"), HasSubstr("are intact")));
  EXPECT_THAT(strange_names(directory_), IsEmpty());
  EXPECT_EQ(expect_recovers(), 20);
}

TEST_F(CheckpointFaultTest, AFullFileSystemKeepsTheEarlierCheckpoint) {
  const path disk = folder_ / "disk";
  testing::fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "this user may not mount a small file system; /dev/full and RLIMIT_FSIZE stand in for it";
  }
  CheckpointStore store(disk / "checkpoints", {2, true});
  store.save(example_snapshot(10), false);
  Snapshot large = example_snapshot(20);
  large.model.push_back({"large", at::ones({1000, 1000})});
  const std::string message = testing::checkpoint_error([&] { store.save(large, false); });
  EXPECT_THAT(message, AllOf(HasSubstr("No space left on device"), HasSubstr("model.safetensors"),
                             HasSubstr("bytes are needed and"), HasSubstr("are free")));
  EXPECT_THAT(strange_names(disk / "checkpoints"), IsEmpty());
  expect_restores(*store.newest_valid());
  store.save(example_snapshot(20), false);
  EXPECT_EQ(store.newest_valid()->step, 20);
  ::umount(disk.c_str());
}

}  // namespace
}  // namespace finetune
