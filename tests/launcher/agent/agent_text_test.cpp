// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent_text.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace agent_text_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("texts about a lost master state their durations") {
  CHECK(seconds_left(TimePoint{}, TimePoint{} + 598s) == "598 s left");
  CHECK(seconds_left(TimePoint{} + 5s, TimePoint{}) == "0 s left");
  CHECK(master_gone_text("10.0.0.1:29500", "connection refused", 2750ms) ==
        "lost contact with master 10.0.0.1:29500: connection refused (no response for 2.8 s)");
  CHECK(no_leader_text("a:1, b:1", "b:1: connection refused", std::chrono::seconds(7)) ==
        "no leader among a:1, b:1: b:1: connection refused (no response for 7.0 s)");
  CHECK(
      slept_text(3s, 61s) ==
      "this node was suspended or got no CPU time for about 61 s, longer than its lease of 3 s; it "
      "has lost its place in the job");
}

TEST_CASE("a port in use is reported with a hint, another error as it is") {
  CHECK(with_port_hint("cannot listen on 0.0.0.0:1: Address already in use")
            .ends_with("(--master-port, or --rdzv-endpoint=HOST:PORT)"));
  CHECK(with_port_hint("cannot listen on 0.0.0.0:1: Permission denied") ==
        "cannot listen on 0.0.0.0:1: Permission denied");
}

TEST_CASE("a node that has succeeded reports it, whether it still asks or has given up") {
  CHECK(asks_text("the master is gone", 60s) ==
        "the master is gone; every worker of this node exited with 0; querying the result of the "
        "job (timeout 60 s)");
  CHECK(done_text("gave up") ==
        "every worker of this node exited with 0, but the result of the job is unknown here: gave "
        "up");
  CHECK(not_needed_text("every worker finished") ==
        "the job ended without this node: every worker finished");
}

TEST_CASE("a worker that survives KILL is named") {
  Outcome outcome;
  outcome.rank = Rank{3};
  outcome.pid = 42;
  CHECK(unkillable_text(outcome).starts_with(
      "rank 3 (pid 42) is in uninterruptible sleep and ignores SIGKILL"));
}

TEST_CASE("a directory for error files that cannot be created is named, with a hint of its own") {
  CHECK(no_directory_text("/tmp/x", ENOSPC) ==
        "cannot create directory \"/tmp/x\" for the workers' error files: No space left on device; "
        "use a writable directory with free space (TMPDIR or --log-dir)");
  CHECK(no_directory_text("/tmp/x", ETIMEDOUT) ==
        "cannot create directory \"/tmp/x\" for the workers' error files: its disk does not "
        "respond; use another one with TMPDIR or --log-dir");
  CHECK(no_directory_text("/tmp/x", std::nullopt)
            .ends_with("the watchdog of this cpprun was killed; restart cpprun"));
}

TEST_CASE("a resource that the machine denies cpprun is reported, with a hint where one exists") {
  CHECK(refused_text(std::make_error_code(std::errc::too_many_files_open))
            .ends_with("raise the limit of open files (ulimit -Hn)"));
  CHECK(refused_text(std::make_error_code(std::errc::not_enough_memory)) ==
        "Cannot allocate memory");
}

TEST_CASE("a resumed job reports the restarts it has used, and its state file") {
  CHECK(goes_on_text(1, "7.state") ==
        "this job continues: 1 of its restarts was used before (--restart-state=7.state; delete "
        "that file to start over)");
  CHECK(goes_on_text(2, "7.state").find("2 of its restarts were used") != std::string::npos);
}

}  // namespace agent_text_test
