// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a function in a child process, because it is expected to end the process.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace cpprun::testing {

struct Ended {
  int exit_code = -1;  // -1 if it died of a signal
  int signal = 0;
  std::string stderr_text;
};

// The parent reads until the child's last descriptor closes, so the child cannot block on output.
// The runner of the test limits the wait.
inline Ended run_in_child(const std::function<int()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  std::fflush(nullptr);  // else the child would print the parent's buffered output again
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    // The test framework handles these; the child is an ordinary program.
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) {
      ::signal(number, SIG_DFL);
    }
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    // On a thread, because the test framework catches whatever passes its frames on this stack.
    std::thread([&body] { ::_exit(body()); }).join();
  }
  ::close(ends[1]);
  Ended ended;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    ended.stderr_text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("no status");
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

}  // namespace cpprun::testing
