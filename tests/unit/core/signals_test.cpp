#include "finetune/core/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace finetune {
namespace {

using testing::ExitedWithCode;

// Each case runs in a process of its own: handlers and requests stay for a process's life.
[[noreturn]] void leave_with(bool good) { ::_exit(good ? 0 : 1); }

int code_thrown() {
  try {
    throw_if_stop_requested();
  } catch (const Interrupted& error) {
    return static_cast<int>(error.exit_code());
  }
  return 0;
}

TEST(SignalsDeathTest, NothingIsAskedAtFirst) {
  const auto child = [] {
    install_signal_handlers();
    leave_with(stop_request() == StopRequest::kNone && !take_save_request() && code_thrown() == 0);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, InterruptAsksForAStop) {
  const auto child = [] {
    install_signal_handlers();
    std::raise(SIGINT);
    leave_with(stop_request() == StopRequest::kInterrupt && code_thrown() == 130);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, TerminateAsksForAStop) {
  const auto child = [] {
    install_signal_handlers();
    std::raise(SIGTERM);
    leave_with(stop_request() == StopRequest::kTerminate && code_thrown() == 143);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, TheSecondSignalLeavesAtOnce) {
  const auto twice = [](int first, int second) {
    install_signal_handlers();
    std::raise(first);
    std::raise(second);
    leave_with(true);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), ExitedWithCode(130), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), ExitedWithCode(143), "");
}

TEST(SignalsDeathTest, SaveIsTakenOnceForEachSignal) {
  const auto child = [] {
    install_signal_handlers();
    std::raise(SIGUSR1);
    const bool first = take_save_request() && !take_save_request();
    std::raise(SIGUSR1);
    leave_with(first && take_save_request() && stop_request() == StopRequest::kNone);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, AClosedPipeIsAnErrorAndNoDeath) {
  const auto child = [] {
    install_signal_handlers();
    int ends[2];
    if (::pipe(ends) != 0) leave_with(false);
    ::close(ends[0]);
    const ssize_t count = ::write(ends[1], "x", 1);
    leave_with(count < 0 && errno == EPIPE);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace finetune
