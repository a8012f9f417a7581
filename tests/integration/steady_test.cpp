// SPDX-License-Identifier: BSD-3-Clause
// Programs that keep leases have locked memory and a raised priority, and the workers have neither:
// cpprun, its watchdog and cpprund, as the kernel shows them.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace steady_test {

using namespace cpprun::integration;

namespace {

constexpr int nice_expected = -10;

// Tried by a child, which loses it when it exits.
bool is_permitted() {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool locked = ::mlockall(MCL_CURRENT) == 0;
    const bool raised = ::setpriority(PRIO_PROCESS, 0, nice_expected) == 0;
    ::_exit(locked && raised ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

std::string shown(pid_t pid, const std::string& file) {
  return Directory::read("/proc/" + std::to_string(pid) + "/" + file);
}

long locked_kib(pid_t pid) {
  const auto status = shown(pid, "status");
  const auto at = status.find("VmLck:");
  return at == std::string::npos ? 0 : std::atol(status.c_str() + at + 6);
}

// Field 19 of its stat; the bracket that closes its name closes field 2.
int niceness(pid_t pid) {
  const auto stat = shown(pid, "stat");
  std::istringstream rest(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  for (int number = 3; number <= 19; ++number) rest >> field;
  return std::atoi(field.c_str());
}

bool is_steady(pid_t pid) {
  return locked_kib(pid) > 0 && niceness(pid) <= nice_expected;
}

void expect_in_time(const char* what, const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!is_so() && std::chrono::steady_clock::now() < end) {
  }
  CHECK_MESSAGE(is_so(), what);
}

pid_t watchdog_of(const Command& agent) {
  for (const pid_t each : agent.relatives()) {
    if (shown(each, "comm") == "job-watchdog\n") return each;
  }
  return 0;
}

}  // namespace

TEST_CASE(
    "programs that keep leases have locked memory and a raised priority, and workers do not") {
#ifdef __SANITIZE_ADDRESS__
  return skip("a sanitizer takes away mlockall()");
#endif
  if (!is_permitted()) {
    return skip("no permission to lock memory and to raise a priority (root, or ulimit -l and -e)");
  }
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=0"});
  daemon.expect_out("\n");
  const auto endpoint = daemon.out().substr(daemon.out().rfind(' ') + 1);
  const auto agent = [&] {
    return with_cpprun({"--nnodes=2", "--rdzv-backend=c10d",
                        "--rdzv-endpoint=" + endpoint.substr(0, endpoint.size() - 1),
                        "--rdzv-id=steady", worker(), "pid", "hang"});
  };
  Command first(agent());
  Command second(agent());
  first.expect_out("pid of rank ");
  second.expect_out("pid of rank ");
  expect_in_time("cpprund", [&] { return is_steady(daemon.pid()); });
  for (const Command* const each : {&first, &second}) {
    expect_in_time("cpprun", [&] { return is_steady(each->pid()); });
    expect_in_time("its watchdog", [&] { return is_steady(watchdog_of(*each)); });
    const auto at = each->out().find(": ");
    const pid_t its_worker = std::atoi(each->out().c_str() + at + 2);
    CHECK(locked_kib(its_worker) == 0);
    CHECK(niceness(its_worker) == ::getpriority(PRIO_PROCESS, 0));
  }
  first.signal(SIGTERM);
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

TEST_CASE("a single node has no lease to keep, and neither locks memory nor raises its priority") {
  Command job(with_cpprun({"--standalone", worker(), "pid", "hang"}));
  job.expect_out("pid of rank ");
  CHECK(locked_kib(job.pid()) == 0);
  CHECK(niceness(job.pid()) == ::getpriority(PRIO_PROCESS, 0));
  job.signal(SIGTERM);
  CHECK(job.wait().code == 143);
}

}  // namespace steady_test
