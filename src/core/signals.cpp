#include "finetune/core/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace finetune {
namespace {

// Signal handlers reach nothing but these.
std::atomic<int> g_stop_signal{0};
std::atomic<bool> g_save_requested{false};

void on_stop(int signal) {
  if (g_stop_signal.exchange(signal) != 0) ::_exit(128 + signal);  // asked twice: leave now
}

void on_save(int) { g_save_requested = true; }

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_stop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_save;
  ::sigaction(SIGUSR1, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

StopRequest stop_request() {
  switch (g_stop_signal.load()) {
    case SIGINT:
      return StopRequest::kInterrupt;
    case SIGTERM:
      return StopRequest::kTerminate;
    default:
      return StopRequest::kNone;
  }
}

bool take_save_request() { return g_save_requested.exchange(false); }

void throw_if_stop_requested() {
  switch (stop_request()) {
    case StopRequest::kNone:
      return;
    case StopRequest::kInterrupt:
      throw Interrupted(ExitCode::kInterrupted, "interrupted");
    case StopRequest::kTerminate:
      throw Interrupted(ExitCode::kTerminated, "terminated");
  }
}

}  // namespace finetune
