// SPDX-License-Identifier: BSD-3-Clause
// Two cpprunds, of which one leads: whichever of them is lost, or handed over, the workers of their
// jobs notice nothing, and no answer is lost or given twice.

#include <doctest/doctest.h>

#include "tests/integration/daemon_site.h"

namespace daemon_pair_test {

using namespace cpprun::integration;

TEST_CASE("no worker notices that the daemon that leads is killed, and then the next one") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 8);
  for (const int lost : {0, 3}) {
    nodes.expect_progress();
    kill_at_once(*site.leads);
    site.swap_roles(site.member(lost));
    CHECK(contains(site.leads->err(), "resuming 1 job from its own replica"));
  }
  nodes.expect_all_added();
  CHECK(count(nodes.first->err(), "workers were not interrupted") == 2);
  site.end_all();
}

TEST_CASE("a standby leads at once when the leader is killed, however long its lease in etcd is") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  // Longer than any scene waits.
  site.etcd_lease = "120";
  site.begin_pair();
  Nodes nodes(site, 6);
  for (const int lost : {0, 3}) {
    nodes.expect_progress();
    kill_at_once(*site.leads);
    site.swap_roles(site.member(lost));
    nodes.expect_progress();
  }
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("an etcd without a quorum for most of the lease ends no job, and the leader names it") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.etcd_lease = "40";
  site.begin_pair();
  Nodes nodes(site, 6);
  nodes.expect_progress();
  for (const std::size_t each : {1U, 2U}) site.etcd.signal(each, SIGSTOP);
  site.leads->expect_err("not responding for ");
  nodes.expect_progress();
  // The second line comes when a quarter of the lease is left. An election of etcd has taken 5 s.
  site.leads->expect_err("not responding for ", 2);
  for (const std::size_t each : {1U, 2U}) site.etcd.signal(each, SIGCONT);
  site.leads->expect_err("etcd responds again");
  nodes.expect_progress();
  CHECK(contains(site.leads->err(), "etcd at http://" + Hosts::address(0) + ":2379, http://"));
  CHECK(contains(site.leads->err(), "; jobs keep running, the leader's lease ends in "));
  nodes.expect_all_added();
  INFO(site.leads->err());
  CHECK_FALSE(contains(site.leads->err(), "this cpprund is no longer the leader"));
  site.end_all();
}

TEST_CASE(
    "the same where the cable of its host is pulled, and it does not know what has become of it") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  // The lease that users have. It takes a member of etcd along, perhaps etcd's own leader.
  site.cluster.conf =
      "keep_alive_interval=0.3,keep_alive_max_attempt=10,last_call_timeout=0.2,join_timeout=50";
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.cluster.hosts.pull_cable(0);
  site.leads->expect_err("this cpprund is no longer the leader");
  site.stands_by->expect_err("this cpprund is the leader");
  nodes.expect_progress();
  site.cluster.hosts.plug_in(0);
  site.leads->expect_err("is a standby of \"node3\"");
  std::swap(site.leads, site.stands_by);
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("one that has slept while another one led says nothing to anybody when it wakes") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.leads->signal(SIGSTOP);
  site.stands_by->expect_err("this cpprund is the leader");
  nodes.expect_progress();
  site.leads->signal(SIGCONT);
  site.leads->expect_err("is a standby of \"node3\"");
  std::swap(site.leads, site.stands_by);
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("a member of etcd is lost, whichever it is, and nothing else happens") {
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

TEST_CASE("the lead is handed over ten times beside 64 workers that count, and none notices") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  site.cluster.workers = "32";
  Nodes nodes(site, 20, 20);
  std::size_t times = 0;
  for (const int upgraded : {0, 3, 0, 3, 0, 3, 0, 3, 0, 3}) {
    nodes.expect_progress();
    site.leads->signal(SIGTERM);
    CHECK(site.leads->wait().code == 0);
    CHECK(contains(site.leads->err(), "leadership was transferred to"));
    site.swap_roles(site.member(upgraded));
    // Ten take less than a second: a node that has not turned yet would miss one.
    nodes.first->expect_err("workers were not interrupted", ++times);
  }
  nodes.expect_all_added();
  site.end_all();
}

TEST_CASE("without a standby the next leader starts from the records in etcd") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.leads = site.member(0);
  site.leads->expect_err("this cpprund is the leader");
  Nodes nodes(site, 6);
  nodes.expect_progress();
  kill_at_once(*site.leads);
  site.leads = site.member(0);
  site.leads->expect_err("resuming 1 job from etcd, without the contents of their stores");
  // The round restarts on an empty store, and all is added once more.
  nodes.gate.open();
  for (const auto& each : {nodes.first.get(), nodes.second.get()}) {
    const auto ended = each->wait();
    CHECK_MESSAGE(ended.code == 0, ended.err);
    CHECK(contains(ended.out, "sum is " + std::to_string(4 * 6 * adds_per_step) + "\n"));
  }
  site.leads->signal(SIGTERM);
  CHECK(site.leads->wait().code == 0);
  site.etcd.end();
  site.cluster.expect_nothing_left();
}

TEST_CASE("one that is called as the one that leads is not taken as its standby, and is told so") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.leads = site.member(0);
  site.leads->expect_err("this cpprund is the leader");
  site.stands_by = std::make_unique<Command>(
      site.cluster.hosts.on(
          3, {from_build("CPPRUND"), "--host=" + Hosts::address(3), "--port=29500",
              "--status-access=none", "--name=" + Hosts::host_name(0),
              "--etcd=" + site.etcd.endpoints("http://"), "--etcd-lease=" + site.etcd_lease}),
      site.cluster.options());
  site.stands_by->expect_err(
      "the leader is called \"node0\" too; give each cpprund its own --name");
  site.leads->expect_err("rejected standby");
  site.end_all();
}

}  // namespace daemon_pair_test
