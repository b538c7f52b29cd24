#pragma once

#include <functional>
#include <string>

namespace finetune::testing {

/// A system call that a traced child is about to make.
struct Syscall {
  int number = 0;    ///< counted from 0 in the child
  std::string name;  ///< of those that change files ("write", "fsync", ...); empty for all others
  std::string what;  ///< for those: the paths, or the path behind the file descriptor
};

/// What happens to it: it goes on, the child dies by SIGKILL before it, or it fails with `error` and does
/// nothing.
struct Verdict {
  enum class Kind { kGoOn, kKill, kFail } kind = Kind::kGoOn;
  int error = 0;
};

struct TraceResult {
  bool killed = false;
  int exit_code = -1;
  int num_syscalls = 0;
};

/// Whether this machine lets a process trace its child; tests that need it are skipped with this reason
/// otherwise.
std::string why_no_tracing();

/// Runs `body` in a child process and asks `decide` before each of its system calls. The child exits with
/// what `body` returns.
TraceResult run_traced(const std::function<int()>& body,
                       const std::function<Verdict(const Syscall&)>& decide);

}  // namespace finetune::testing
