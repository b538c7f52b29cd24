#include "checkpoint/syscall_tracer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>

namespace finetune::testing {

#if defined(__x86_64__)
namespace {

std::string child_string(pid_t child, unsigned long long address) {
  std::string text(4096, '\0');
  // Up to the end of the page first: the one after it may not be mapped.
  const size_t in_page = 4096 - address % 4096;
  iovec local{text.data(), text.size()};
  iovec remote[2] = {{reinterpret_cast<void*>(address), in_page},
                     {reinterpret_cast<void*>(address + in_page), address % 4096}};
  if (::process_vm_readv(child, &local, 1, remote, 2, 0) <= 0) return "?";
  return text.c_str();
}

std::string descriptor_path(pid_t child, unsigned long long descriptor) {
  std::error_code error;
  const auto link = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(static_cast<int>(descriptor));
  return std::filesystem::read_symlink(link, error).string();
}

Syscall describe(pid_t child, int number, const user_regs_struct& registers) {
  const auto path = [&](unsigned long long address) { return child_string(child, address); };
  Syscall call{number, "", ""};
  switch (registers.orig_rax) {
    case SYS_openat:
      if ((registers.rdx & O_CREAT) != 0)
        call = {number, "create", path(registers.rsi)};
      else
        call = {number, "open", path(registers.rsi)};
      break;
    case SYS_write:
      call = {number, "write", descriptor_path(child, registers.rdi)};
      break;
    case SYS_fsync:
      call = {number, "fsync", descriptor_path(child, registers.rdi)};
      break;
    case SYS_close:
      call = {number, "close", descriptor_path(child, registers.rdi)};
      break;
    case SYS_mkdir:
      call = {number, "mkdir", path(registers.rdi)};
      break;
    case SYS_rename:
      call = {number, "rename", path(registers.rdi) + " -> " + path(registers.rsi)};
      break;
    case SYS_renameat2:
      call = {number, "exchange", path(registers.rsi) + " -> " + path(registers.r10)};
      break;
    case SYS_symlink:
      call = {number, "symlink", path(registers.rdi) + " -> " + path(registers.rsi)};
      break;
    case SYS_unlinkat:
    case SYS_unlink:
    case SYS_rmdir:
      call = {number, "remove", path(registers.orig_rax == SYS_unlinkat ? registers.rsi : registers.rdi)};
      break;
    default:
      break;
  }
  return call;
}

pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(99);
  ::raise(SIGSTOP);
  ::_exit(body());
}

}  // namespace

TraceResult run_traced(const std::function<int()>& body,
                       const std::function<Verdict(const Syscall&)>& decide) {
  const pid_t child = start_child(body);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
    throw std::runtime_error("cannot trace");
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  TraceResult result;
  bool entering = true;
  int injected = 0;
  while (true) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (::waitpid(child, &status, 0) != child) throw std::runtime_error("lost the traced child");
    if (WIFEXITED(status)) {
      result.exit_code = WEXITSTATUS(status);
      return result;
    }
    if (WIFSIGNALED(status)) {
      result.killed = true;
      return result;
    }
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    if (entering) {
      const Verdict verdict = decide(describe(child, result.num_syscalls++, registers));
      if (verdict.kind == Verdict::Kind::kKill) ::kill(child, SIGKILL);
      if (verdict.kind == Verdict::Kind::kFail) {
        injected = verdict.error;
        registers.orig_rax = ~0ULL;  // no such call: the kernel does nothing
        ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
      }
    } else if (injected != 0) {
      registers.rax = static_cast<unsigned long long>(-static_cast<long long>(injected));
      injected = 0;
      ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
    }
    entering = !entering;
  }
}

std::string why_no_tracing() {
  static const std::string reason = [] {
    const pid_t child = start_child([] { return 0; });
    int status = 0;
    const bool stopped = child > 0 && ::waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    if (stopped) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    return stopped ? "" : "this machine does not let a process trace its child (ptrace)";
  }();
  return reason;
}

#else

TraceResult run_traced(const std::function<int()>&, const std::function<Verdict(const Syscall&)>&) {
  throw std::runtime_error("tracing is written for x86-64");
}

std::string why_no_tracing() { return "faults are injected on x86-64 only"; }

#endif

}  // namespace finetune::testing
