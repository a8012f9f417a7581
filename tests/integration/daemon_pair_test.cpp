// SPDX-License-Identifier: BSD-3-Clause
// Two cpprunds, of which one leads: whichever of them is lost, or handed over, the workers of their
// jobs notice nothing, and no answer is lost or given twice.

#include <doctest/doctest.h>

#include <memory>

#include "tests/integration/adding_workers.h"
#include "tests/integration/etcd_on_hosts.h"

using namespace cpprun::integration;

namespace {

// Nodes on hosts 1 and 2, a daemon on hosts 0 and 3; and a member of etcd beside each of these and
// on host 4, as in a real cluster: what takes a daemon takes one of them.
struct Site {
  Site() : cluster(5, "2"), etcd(cluster.hosts, {0, 3, 4}) {
    cluster.workers = "2";
    cluster.endpoint = place(0) + "," + place(3);
  }
  static std::string place(int host) { return Hosts::address(host) + ":29500"; }

  std::string why_not() const { return etcd.why_not(); }

  std::unique_ptr<Command> daemon(int host, const Words& more) const {
    Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(host), "--port=29500",
                   "--status-access=none", "--name=" + Hosts::host_name(host)};
    words.insert(words.end(), more.begin(), more.end());
    auto begun = std::make_unique<Command>(cluster.hosts.on(host, words), cluster.options());
    begun->expect_out("\n");
    return begun;
  }
  std::unique_ptr<Command> member(int host) const {
    return daemon(host, {"--etcd=" + etcd.endpoints("http://")});
  }
  // The first of them leads, and the other one knows everything.
  void begin_pair() {
    leads = member(0);
    leads->expect_err("this cpprund leads");
    stands_by = member(3);
    leads->expect_err("stands by: it would lead");
  }
  // What was lost is back, and stands by for the other one.
  void change_places(std::unique_ptr<Command> back) {
    stands_by->expect_err("this cpprund leads");
    leads = std::move(stands_by);
    stands_by = std::move(back);
    leads->expect_err("stands by: it would lead");
  }

  std::unique_ptr<Command> node(int host, const Words& does) const {
    Words program = {from_build("CPPRUN_STORE_WORKER")};
    program.insert(program.end(), does.begin(), does.end());
    return std::make_unique<Command>(cluster.node(host, {}, program), cluster.options());
  }
  void end_all() {
    for (auto* const each : {&stands_by, &leads}) {
      (*each)->signal(SIGTERM);
      CHECK((*each)->wait().code == 0);
    }
    etcd.end();
    cluster.expect_nothing_left();
  }
  Cluster cluster;
  EtcdOnHosts etcd;
  std::unique_ptr<Command> leads;
  std::unique_ptr<Command> stands_by;
};

// All of them at work.
struct Nodes {
  Nodes(const Site& site, int its_steps)
      : first(site.node(1, adds_in(its_steps))),
        second(site.node(2, adds_in(its_steps))),
        steps(its_steps) {}
  void expect_progress() { first->expect_out("sum is ", times += 2); }
  void expect_all_added() {
    cpprun::integration::expect_all_added({first.get(), second.get()}, steps);
  }
  std::unique_ptr<Command> first;
  std::unique_ptr<Command> second;
  int steps;
  std::size_t times = 0;
};

}  // namespace

TEST_CASE("no worker notices that the daemon that leads is killed, and then the next one") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 8);
  for (const int lost : {0, 3}) {
    nodes.expect_progress();
    kill_at_once(*site.leads);
    site.change_places(site.member(lost));
    CHECK(contains(site.leads->err(), "goes on with 1 job: its standby's copy"));
  }
  nodes.expect_all_added();
  CHECK(count(nodes.first->err(), "no worker was disturbed") == 2);
  site.end_all();
}

TEST_CASE(
    "the same where the cable of its host is pulled, and it does not know what has become of it") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.cluster.hosts.pull_cable(0);
  site.leads->expect_err("this cpprund leads no more");
  site.stands_by->expect_err("this cpprund leads");
  nodes.expect_progress();
  site.cluster.hosts.plug_in(0);
  site.leads->expect_err("stands by for \"node3\"");
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
  site.stands_by->expect_err("this cpprund leads");
  nodes.expect_progress();
  site.leads->signal(SIGCONT);
  site.leads->expect_err("stands by for \"node3\"");
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

TEST_CASE("the lead is handed over as often as somebody wants, and no worker notices") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  Nodes nodes(site, 12);
  for (const int upgraded : {0, 3, 0, 3, 0, 3, 0, 3, 0, 3}) {
    nodes.expect_progress();
    site.leads->signal(SIGTERM);
    CHECK(site.leads->wait().code == 0);
    CHECK(contains(site.leads->err(), "it has handed over to"));
    site.change_places(site.member(upgraded));
  }
  nodes.expect_all_added();
  CHECK(count(nodes.first->err(), "no worker was disturbed") == 10);
  site.end_all();
}

TEST_CASE("one that finds everything in its folder goes on by itself, where nobody stands by") {
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  const Folder state;
  const Words words = {"--etcd=" + site.etcd.endpoints("http://"), "--state=" + state.path()};
  site.leads = site.daemon(0, words);
  site.leads->expect_err("this cpprund leads");
  Nodes nodes(site, 6);
  for (int times = 0; times < 2; ++times) {
    nodes.expect_progress();
    kill_at_once(*site.leads);
    site.leads = site.daemon(0, words);
    site.leads->expect_err("this cpprund leads");
  }
  nodes.expect_all_added();
  site.stands_by = site.member(3);
  site.leads->expect_err("stands by: it would lead");
  site.end_all();
}

TEST_CASE("without etcd the one that stands by leads when it is handed over, and not before") {
  Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  site.leads = site.daemon(0, {});
  site.stands_by = site.daemon(3, {"--standby-of=" + Site::place(0)});
  site.leads->expect_err("stands by: it would lead");
  Nodes nodes(site, 6);
  nodes.expect_progress();
  site.leads->signal(SIGTERM);
  CHECK(site.leads->wait().code == 0);
  site.change_places(site.daemon(0, {"--standby-of=" + Site::place(3)}));
  nodes.expect_progress();
  // Nobody can say whether it is lost or cannot be reached: the other one does not presume.
  site.leads->signal(SIGSTOP);
  site.stands_by->expect_err("which leads, is lost");
  site.leads->signal(SIGCONT);
  site.leads->expect_err("stands by: it would lead", 2);
  CHECK_FALSE(contains(site.stands_by->err(), "this cpprund leads"));
  nodes.expect_all_added();
  site.end_all();
}
