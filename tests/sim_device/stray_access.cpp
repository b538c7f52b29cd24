#include <unistd.h>

#include <csignal>

#include "state.h"

namespace finetune::sim {
namespace {

/// Calls nothing but what a signal handler may.
void on_segv(int, siginfo_t* info, void*) {
  for (int index = 0; index < kDevices; ++index) {
    const char* range = state().devices[static_cast<size_t>(index)].range;
    if (info->si_addr < range || info->si_addr >= range + kRangeBytes) continue;
    char text[] = "sim: host code touched the memory of sim:0\n";
    text[sizeof(text) - 3] = static_cast<char>('0' + index);
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, sizeof(text) - 1);
  }
  std::signal(SIGSEGV, SIG_DFL);
}

}  // namespace

void report_stray_accesses() {
  struct sigaction action {};
  action.sa_sigaction = &on_segv;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace finetune::sim
