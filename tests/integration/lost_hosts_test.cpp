// SPDX-License-Identifier: BSD-3-Clause
// Hosts that are lost: cables that are pulled, networks that drop packets, machines that die
// silently. The network notifies no node; each has to find out within the lease.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace lost_hosts_test {

using namespace cpprun::integration;

namespace {

// Ends a job that runs until it is asked to end, and the nodes that still look for it.
void stop(Command& master, std::initializer_list<Command*> others) {
  master.signal(SIGTERM);
  CHECK(master.wait().code == 143);
  for (Command* const other : others) {
    other->signal(SIGTERM);
    CHECK(other->wait().code != 0);
  }
}

}  // namespace

TEST_CASE(
    "two of three nodes continue when a cable is pulled, and three when it is plugged in "
    "again") {
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

TEST_CASE("a spare takes the seat of a node whose cable is pulled") {
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

TEST_CASE(
    "a network that drops every packet, or those of one direction, counts as a pulled cable") {
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

TEST_CASE(
    "a node that dies behind a network that drops its last packet is lost when its lease "
    "expires") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  // Neither FIN nor RST arrives: the other end of its link stays open.
  cluster->hosts.drop(2, Hosts::Way::out);
  third.signal(SIGKILL);
  third.expect_no_process_left();
  expect_each({&first, &second}, " of 2, restart 0\n");
  first.expect_err("node2 is lost");
  stop(first, {&second});
  cluster->expect_nothing_left();
}

TEST_CASE("when the coordinator's host dies the others report since when, and end their workers") {
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
  // It is alone now, and its job needs three nodes: it waits for them, and reports which are lost.
  first.expect_err("is lost");
  first.signal(SIGTERM);
  CHECK(first.wait().code != 0);
  cluster->expect_nothing_left();
}

}  // namespace lost_hosts_test
