#pragma once

#include <c10/util/StringUtil.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

namespace finetune::sim {

/// Runs `body` in a child process and returns what it wrote to stderr, with the signal that ended it.
inline std::string died_with(const std::function<void()>& body) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text(1000, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(pipe_ends[0], text.data(), text.size()))));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? c10::str(text, "signal ", WTERMSIG(status)) : text + "survived";
}

}  // namespace finetune::sim
