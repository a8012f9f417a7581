// SPDX-License-Identifier: BSD-3-Clause
// A cpprund apart from the training: what becomes of its jobs when it is killed, and when it, or a
// replacement, starts again.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace lost_daemon_test {

using namespace cpprun::integration;

namespace {

// On host 0, where no node of the job runs.
Command daemon_of(const Cluster& cluster) {
  return Command(
      cluster.hosts.on(0, {from_build("CPPRUND"), "--host=" + Hosts::address(0), "--port=29500",
                           // A killed daemon could not remove its control socket.
                           "--status-access=none"}),
      cluster.options());
}

}  // namespace

TEST_CASE("without its daemon a job of fixed size ends within the lease, with the reason") {
  const Cluster cluster(3, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = daemon_of(cluster);
  daemon.expect_out("\n");
  Command first(cluster.node(1), cluster.options());
  Command second(cluster.node(2), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  kill_at_once(daemon);
  for (Command* const each : {&first, &second}) {
    const auto ended = each->wait();
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, "lost contact with master 10.77.0.1:29500: connection refused"));
  }
  cluster.expect_nothing_left();
}

TEST_CASE("jobs that may restart wait for their daemon, and restart when it is back") {
  const Cluster cluster(3, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = daemon_of(cluster);
  daemon.expect_out("\n");
  const Words flags = {"--max-restarts=1"};
  Command first(cluster.node(1, flags), cluster.options());
  Command second(cluster.node(2, flags), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  kill_at_once(daemon);
  for (Command* const each : {&first, &second}) each->expect_err("rejoining (timeout");
  Command late = daemon_of(cluster);
  expect_each({&first, &second}, " of 2, restart 0\n", 2);
  // Killed and replaced within the lease: the new one knows nothing of the running round.
  kill_at_once(late);
  Command prompt = daemon_of(cluster);
  expect_each({&first, &second}, " of 2, restart 0\n", 3);
  for (Command* const each : {&first, &second, &prompt}) each->signal(SIGTERM);
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
  CHECK(prompt.wait().code == 0);
  cluster.expect_nothing_left();
}

}  // namespace lost_daemon_test
