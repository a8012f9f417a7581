// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the tests with real processes share: the victim's path, pipes to read from it, and running
// an event loop until a condition holds.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "launcher/plan/plan.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::probe {

inline std::string victim() {
  return std::getenv("CPPRUN_IO_VICTIM");
}

// Children for what may hang, none of which outlives its test.
struct Side : HelperProcesses {
  ~Side() {
    for (const int pid : pids()) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
};

inline WorkerSpec spec_for(std::vector<std::string> argv, int local_rank = 0) {
  WorkerSpec spec;
  spec.local_rank = LocalRank{local_rank};
  spec.rank = Rank{local_rank};
  spec.argv = std::move(argv);
  return spec;
}

// A pipe whose ends close with it. A test that reads to the end knows that no writer is left.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) std::abort();
  }
  ~Pipe() {
    close_in();
    if (ends_[0] >= 0) ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int out() const { return ends_[0]; }
  int in() const { return ends_[1]; }
  void close_in() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }
  void close_out() {
    if (ends_[0] >= 0) ::close(std::exchange(ends_[0], -1));
  }

  std::string read_line() {
    std::string line;
    char byte = 0;
    while (read_some(&byte, 1) == 1 && byte != '\n') line += byte;
    return line;
  }
  std::string read_all() {
    std::string text;
    char buffer[4096];
    for (auto got = read_some(buffer, sizeof buffer); got > 0;
         got = read_some(buffer, sizeof buffer)) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  // The death of a child interrupts a read: Asio's handlers do not restart it.
  long read_some(char* bytes, std::size_t count) {
    while (true) {
      const auto got = ::read(ends_[0], bytes, count);
      if (got >= 0 || errno != EINTR) return got;
    }
  }

  int ends_[2] = {-1, -1};
};

// Runs the loop until `done` holds; false when that takes far too long.
inline bool run_until(asio::io_context& context, const std::function<bool()>& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    context.restart();
    context.run_one_for(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace cpprun::probe
