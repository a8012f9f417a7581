// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process_tree.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace search_test {

using namespace cpprun;

namespace {

pid_t hanging() {
  const pid_t pid = ::fork();
  while (pid == 0) ::pause();
  return pid;
}

int signal_that_ended(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("a search that hangs at one process abandons it, and continues with the next") {
  const pid_t holds_up = hanging();
  const pid_t wanted = hanging();
  io::Search search({}, ::getpid(), {}, [&](const io::JobProcesses&, int pid) {
    while (pid == holds_up) ::pause();
    return pid == wanted;
  });
  search.kill_all({}, -1);
  CHECK(signal_that_ended(wanted) == SIGKILL);
  CHECK(::waitpid(holds_up, nullptr, WNOHANG) == 0);
  ::kill(holds_up, SIGKILL);
  signal_that_ended(holds_up);
}

TEST_CASE("a search stops early when its pipe has input") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "x", 1) == 1);
  const pid_t child = hanging();
  io::Search search({}, ::getpid(), {}, [](const io::JobProcesses&, int) {
    ::pause();
    return true;
  });
  search.kill_all({}, ends[0]);
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  ::kill(child, SIGKILL);
  signal_that_ended(child);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("without a mark a token does not identify job processes: submitted jobs carry it too") {
  const io::JobProcesses job_processes{.mark = {},
                                       .token = "submitted" + std::to_string(::getpid())};
  const pid_t batch_system = ::fork();
  if (batch_system == 0) {
    ::setenv("CPPRUN_NODE_TOKEN", job_processes.token.c_str(), 1);
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
  }
  while (!io::carries_token(batch_system, job_processes.token)) {
  }
  const int unrelated = 999'999'999;
  CHECK_FALSE(io::descends_from_worker(job_processes, batch_system, unrelated, {}));
  CHECK(io::descends_from_worker(job_processes, batch_system, ::getpid(), {}));
  CHECK(io::descends_from_worker(job_processes, batch_system, unrelated, {::getpid()}));
  io::Search search(job_processes, unrelated, {});
  search.kill_all({}, -1);
  CHECK(::waitpid(batch_system, nullptr, WNOHANG) == 0);
  ::kill(batch_system, SIGKILL);
  signal_that_ended(batch_system);
}

}  // namespace search_test
