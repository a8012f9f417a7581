// SPDX-License-Identifier: BSD-3-Clause
// Hosts that are lost: cables that are pulled, networks that swallow packets, machines that die
// without a word. Nobody is told by the network; everybody has to find out, within the lease.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace lost_hosts_test {

using namespace cpprun::integration;

namespace {

// Ends a job that stays until it is asked to, and whoever still looks for it.
void stop(Command& master, std::initializer_list<Command*> others) {
  master.signal(SIGTERM);
  CHECK(master.wait().code == 143);
  for (Command* const other : others) {
    other->signal(SIGTERM);
    CHECK(other->wait().code != 0);
  }
}

}  // namespace

TEST_CASE("a pulled cable leaves two of three nodes, which go on; plugged in, three again") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  cluster->hosts.pull_cable(2);
  expect_each({&first, &second}, " of 2, restart 0\n");
  first.expect_err("node2 is lost");
  third.expect_err("no message from the master");
  third.expect_err("rejoining (timeout");
  cluster->hosts.plug_in(2);
  expect_each({&first, &second, &third}, " of 3, restart 0\n", 2);
  stop(first, {&second, &third});
  cluster->expect_nothing_left();
}

TEST_CASE("a spare takes the place of a node whose cable is pulled") {
  const Cluster cluster(3, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command first(cluster.node(0), cluster.options());
  Command second(cluster.node(1), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  Command spare(cluster.node(2), cluster.options());
  spare.expect_err("this node is a spare");
  cluster.hosts.pull_cable(1);
  spare.expect_out("rank 1 of 2, restart 0\n");
  first.expect_out("rank 0 of 2, restart 0\n", 2);
  stop(first, {&second, &spare});
  cluster.expect_nothing_left();
}

TEST_CASE("a network that swallows every packet, or those of one way, is a pulled cable") {
  for (const auto way : {Hosts::Way::both, Hosts::Way::in, Hosts::Way::out}) {
    const auto nodes = three_at_work("2:3");
    if (!nodes) return;
    auto& [cluster, first, second, third] = *nodes;
    const std::string why_not = cluster->hosts.why_no_drop();
    if (!why_not.empty()) return skip(why_not);
    cluster->hosts.drop(1, way);
    expect_each({&first, &third}, " of 2, restart 0\n");
    second.expect_err("no message from the master");
    stop(first, {&second, &third});
    cluster->expect_nothing_left();
  }
}

TEST_CASE("a node that dies behind a network that swallows its last word is lost by the lease") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  // Neither FIN nor RST arrives: the other end of its link stays open.
  cluster->hosts.drop(2, Hosts::Way::out);
  third.signal(SIGKILL);
  third.expect_nobody_left();
  expect_each({&first, &second}, " of 2, restart 0\n");
  first.expect_err("node2 is lost");
  stop(first, {&second});
  cluster->expect_nothing_left();
}

TEST_CASE("when the coordinator's host dies the others say so, end their workers, and since when") {
  const auto nodes = three_at_work("3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  cluster->hosts.pull_cable(0);
  for (Command* const each : {&second, &third}) {
    const auto ended = each->wait();
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, "lost contact with master 10.77.0.1:29500"));
    CHECK(contains(ended.err, "(no response for "));
    each->expect_no_worker_left();
  }
  // It is alone now, and its job is for three: it waits for them, and says whom it has lost.
  first.expect_err("is lost");
  first.signal(SIGTERM);
  CHECK(first.wait().code != 0);
  cluster->expect_nothing_left();
}

}  // namespace lost_hosts_test
