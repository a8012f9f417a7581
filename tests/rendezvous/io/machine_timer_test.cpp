// SPDX-License-Identifier: BSD-3-Clause
// The timer of the state machines, and its clock.

#include "rendezvous/io/asio_loop.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <vector>

#include "rendezvous/io/event_loop.h"

namespace machine_timer_test {

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("an expired deadline fires at once, and a cancelled one never") {
  asio::io_context context;
  std::vector<int> fired;
  MachineTimer passed(context, [&] { fired.push_back(1); });
  MachineTimer taken_back(context, [&] { fired.push_back(2); });
  MachineTimer moved(context, [&] {
    fired.push_back(3);
    context.stop();
  });
  taken_back.arm(boot_now() + 1ms);
  taken_back.arm(std::nullopt);
  moved.arm(boot_now() + 1h);
  moved.arm(boot_now() + 20ms);
  passed.arm(boot_now() - 1h);
  auto busy = asio::make_work_guard(context);
  context.run();
  CHECK(fired == std::vector<int>{1, 3});
}

TEST_CASE("a machine's clock and timer include the time it is suspended") {
  // In a time namespace the two monotonic clocks differ as after a day of suspension.
  const pid_t sleeper = ::fork();
  if (sleeper == 0) {
    if (::unshare(CLONE_NEWTIME) != 0) ::_exit(77);
    std::ofstream offsets("/proc/self/timens_offsets");
    offsets << "boottime 86400 0\n";
    if (!offsets.flush()) ::_exit(77);
    const pid_t inside = ::fork();
    if (inside == 0) {
      const auto slept = boot_now() - std::chrono::steady_clock::now();
      if (slept < 86'000s) ::_exit(1);
      asio::io_context context;
      bool fired = false;
      MachineTimer timer(context, [&] { fired = true; });
      timer.arm(boot_now() + 1ms);
      context.run_for(60s);
      ::_exit(fired ? 0 : 2);
    }
    int status = 0;
    ::waitpid(inside, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  int status = 0;
  ::waitpid(sleeper, &status, 0);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    std::puts("skipped: no permission to create time namespaces");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace machine_timer_test
