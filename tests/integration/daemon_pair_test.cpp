// SPDX-License-Identifier: BSD-3-Clause
// A leader and a standby cpprund: if either is lost, or leadership is transferred, the workers of
// their jobs notice nothing, and no answer is lost or applied twice.

#include <doctest/doctest.h>

#include "tests/integration/daemon_site.h"

namespace daemon_pair_test {

using namespace cpprun::integration;

TEST_CASE("no worker notices that the leader is killed, and then its successor") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 8);
  for (const int lost : {0, 3}) {
    nodes.expect_progress();
    kill_at_once(*site.leader);
    site.swap_roles(site.member(lost));
    CHECK(contains(site.leader->err(), "resuming 1 job from its own replica"));
  }
  nodes.expect_all_added();
  CHECK(count(nodes.first->err(), "workers were not interrupted") == 2);
  site.end_all();
}

TEST_CASE(
    "a standby becomes the leader as soon as the leader is killed, however long its lease in "
    "etcd is") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  // Longer than any scene waits.
  site.etcd_lease = "120";
  site.begin_pair();
  Nodes nodes(site, 6);
  for (const int lost : {0, 3}) {
    nodes.expect_progress();
    kill_at_once(*site.leader);
    site.swap_roles(site.member(lost));
    nodes.expect_progress();
  }
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("an etcd without a quorum for most of the lease ends no job, and the leader reports it") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.etcd_lease = "40";
  site.begin_pair();
  Nodes nodes(site, 6);
  nodes.expect_progress();
  for (const std::size_t each : {1U, 2U}) site.etcd.signal(each, SIGSTOP);
  site.leader->expect_err("has not responded for ");
  nodes.expect_progress();
  // The second line comes when a quarter of the lease is left. An etcd election has taken 5 s.
  site.leader->expect_err("has not responded for ", 2);
  for (const std::size_t each : {1U, 2U}) site.etcd.signal(each, SIGCONT);
  site.leader->expect_err("etcd responds again");
  nodes.expect_progress();
  CHECK(contains(site.leader->err(), "etcd at http://" + Hosts::address(0) + ":2379, http://"));
  CHECK(contains(site.leader->err(), "; jobs keep running, the leader's lease ends in "));
  nodes.expect_all_added();
  INFO(site.leader->err());
  CHECK_FALSE(contains(site.leader->err(), "this cpprund is no longer the leader"));
  site.end_all();
}

TEST_CASE("no worker notices that the cable of the leader's host is pulled") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  // The default lease. It also cuts off a member of etcd, possibly etcd's own leader.
  site.cluster.conf =
      "keep_alive_interval=0.3,keep_alive_max_attempt=10,last_call_timeout=0.2,join_timeout=50";
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.cluster.hosts.pull_cable(0);
  site.leader->expect_err("this cpprund is no longer the leader");
  site.standby->expect_err("this cpprund is the leader");
  nodes.expect_progress();
  site.cluster.hosts.plug_in(0);
  site.leader->expect_err("is a standby of \"node3\"");
  std::swap(site.leader, site.standby);
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("a leader that was suspended while another took over sends nothing when it wakes") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.leader->signal(SIGSTOP);
  site.standby->expect_err("this cpprund is the leader");
  nodes.expect_progress();
  site.leader->signal(SIGCONT);
  site.leader->expect_err("is a standby of \"node3\"");
  std::swap(site.leader, site.standby);
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("losing any one member of etcd has no other effect") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 6);
  for (std::size_t each = 0; each < site.etcd.size(); ++each) {
    nodes.expect_progress();
    site.etcd.kill(each);
    nodes.expect_progress();
    site.etcd.begin_again(each);
  }
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("leadership is transferred ten times beside 64 counting workers, and none notices") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  site.cluster.workers = "32";
  Nodes nodes(site, 20, 20);
  std::size_t times = 0;
  for (const int upgraded : {0, 3, 0, 3, 0, 3, 0, 3, 0, 3}) {
    nodes.expect_progress();
    site.leader->signal(SIGTERM);
    CHECK(site.leader->wait().code == 0);
    CHECK(contains(site.leader->err(), "leadership was transferred to"));
    site.swap_roles(site.member(upgraded));
    // Ten take less than a second; a node that has not switched yet would miss one.
    nodes.first->expect_err("workers were not interrupted", ++times);
  }
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("without a standby the next leader starts from the records in etcd") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.leader = site.member(0);
  site.leader->expect_err("this cpprund is the leader");
  Nodes nodes(site, 6);
  nodes.expect_progress();
  kill_at_once(*site.leader);
  site.leader = site.member(0);
  site.leader->expect_err("resuming 1 job from etcd, without the contents of their stores");
  // The round restarts on an empty store, and all is added once more.
  nodes.gate.open();
  for (const auto& each : {nodes.first.get(), nodes.second.get()}) {
    const auto ended = each->wait();
    CHECK_MESSAGE(ended.code == 0, ended.err);
    CHECK(contains(ended.out, "sum is " + std::to_string(4 * 6 * adds_per_step) + "\n"));
  }
  site.leader->signal(SIGTERM);
  CHECK(site.leader->wait().code == 0);
  site.etcd.end();
  site.cluster.expect_nothing_left();
}

TEST_CASE("a standby with the leader's name is rejected, and both daemons report it") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.leader = site.member(0);
  site.leader->expect_err("this cpprund is the leader");
  site.standby = std::make_unique<Command>(
      site.cluster.hosts.on(
          3, {from_build("CPPRUND"), "--host=" + Hosts::address(3), "--port=29500",
              "--status-access=none", "--name=" + Hosts::host_name(0),
              "--etcd=" + site.etcd.endpoints("http://"), "--etcd-lease=" + site.etcd_lease}),
      site.cluster.options());
  site.standby->expect_err("the leader is called \"node0\" too; give each cpprund its own --name");
  site.leader->expect_err("rejected standby");
  site.end_all();
}

}  // namespace daemon_pair_test
