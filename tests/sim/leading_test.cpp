// SPDX-License-Identifier: BSD-3-Clause
// Jobs survive the loss of their leader: a restarted cpprund, a node that hosts the coordinator,
// one of several cpprunds with an etcd. A separate program, so that two cores share the seeds.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/sim/must_hold.h"
#include "tests/sim/world.h"

using namespace cpprun::sim;

TEST_CASE("jobs survive a restart of their cpprund, also after a reboot of its machine") {
  must_hold("records", 97'000, 250);
  must_hold("records,workers,network", 98'000, 500);
  must_hold("records,everything", 99'000, 750);
  must_hold("records,stores", 108'000, 1000);
  must_hold("records,everything,stores", 100'000, 500);
}

TEST_CASE("another node becomes the leader when the master is lost, and there are never two") {
  must_hold("standby", 101'000, 250);
  must_hold("standby,coordinator-kill,coordinator-host", 102'000, 750);
  must_hold("standby,coordinator,network", 103'000, 1000);
  must_hold("standby,all", 104'000, 1000);
  must_hold("standby,everything", 105'000, 750);
  must_hold("standby,coordinator-kill,kill,return", 106'000, 375);
  must_hold("standby,all,stores", 107'000, 375);
}

TEST_CASE("another node becomes the leader when the master is lost while its round drains") {
  using namespace std::chrono_literals;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    // One worker fails, and another one uses the whole grace period.
    const Scenario scenario{
        .seed = seed,
        .jobs = {{.nodes_min = 2,
                  .nodes_max = 4,
                  .workers_per_node = 1,
                  .restarts = {.max = 4},
                  .work_max = 60s}},
        .faults = {{.kind = FaultKind::worker_hangs, .at = 14s, .nodes = {1}},
                   {.kind = FaultKind::worker_exits, .at = 15s, .nodes = {2}, .value = 7},
                   {.kind = FaultKind::coordinator_killed, .at = 15s + seed * 100ms}},
        .standby = true};
    World world{scenario};
    CHECK(world.run().value_or("every promise was kept") == "every promise was kept");
  }
}

TEST_CASE("another node becomes the leader when the standby left before the master is lost") {
  using namespace std::chrono_literals;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    // The standby exits or is killed, and a worker of another node uses the whole grace period.
    const bool is_killed = seed % 2 == 0;
    const Fault leaves{.kind = is_killed ? FaultKind::agent_killed : FaultKind::agent_signalled,
                       .at = 15s,
                       .nodes = {1},
                       .value = SIGTERM};
    const Scenario scenario{.seed = seed,
                            .jobs = {{.nodes_min = 2,
                                      .nodes_max = 4,
                                      .workers_per_node = 1,
                                      .restarts = {.max = 4},
                                      .work_max = 60s}},
                            .faults = {{.kind = FaultKind::worker_hangs, .at = 14s, .nodes = {2}},
                                       leaves,
                                       {.kind = FaultKind::coordinator_killed,
                                        .at = (is_killed ? 19s : 16s) + 200ms + seed * 50ms}},
                            .standby = true};
    World world{scenario};
    CHECK(world.run().value_or("every promise was kept") == "every promise was kept");
  }
}

TEST_CASE("one of several cpprunds is the leader, and the next one knows what it has sent") {
  must_hold("set", 110'000, 600);
  must_hold("set,coordinator,records", 112'000, 600);
  must_hold("set,network", 114'000, 400);
  must_hold("set,workers,agents", 116'000, 300);
  must_hold("set,all,records", 118'000, 600);
}
