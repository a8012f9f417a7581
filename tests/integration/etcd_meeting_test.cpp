// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose nodes meet through etcd alone, as torchrun's --rdzv-backend=etcd means it: no cpprund,
// no master; if any node is lost, the others continue.

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/integration/adding_workers.h"
#include "tests/integration/etcd_on_hosts.h"

namespace etcd_meeting_test {

using namespace cpprun::integration;

namespace {

// Nodes on hosts 0, 1 and 2, a member of etcd on host 3.
struct Site {
  explicit Site(const std::string& nodes) : cluster(4, nodes), etcd(cluster.hosts, {3}) {
    cluster.backend = "etcd";
    cluster.endpoint = etcd.endpoints("");
    cluster.conf += ",etcd_lease=2";  // short, so that a scene sees it end
  }
  std::unique_ptr<Command> begin(int host, const Words& flags = {}) const {
    return std::make_unique<Command>(cluster.node(host, flags), cluster.options());
  }
  std::unique_ptr<Command> begin(int host, const Words& flags, const Words& program) const {
    return std::make_unique<Command>(cluster.node(host, flags, program), cluster.options());
  }
  // The contents of etcd.
  std::string keys(const Words& how = {"--keys-only"}) const {
    Words words = {
        "/usr/bin/env", "ETCDCTL_API=3", "etcdctl", "--endpoints=" + etcd.endpoints("http://"),
        "get",          "--prefix",      ""};
    words.insert(words.end(), how.begin(), how.end());
    Command look(cluster.hosts.on(3, words));
    return look.wait().out;
  }
  void end() {
    etcd.end();
    cluster.expect_nothing_left();
  }
  Cluster cluster;
  EtcdOnHosts etcd;
};

}  // namespace

TEST_CASE("the host of the coordinator loses power, and the other two nodes continue") {
  Site site("2:3");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  // The first node hosts the coordinator.
  const auto first = site.begin(0);
  first->expect_err("waiting");
  const auto second = site.begin(1);
  const auto third = site.begin(2);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 0\n");
  // If the third node was slow to arrive, the others have already started as two.
  const auto before = count(second->out(), " of 2, restart 0\n");
  site.cluster.hosts.pull_cable(0);
  second->expect_out(" of 2, restart 0\n", before + 1);
  third->expect_out(" of 2, restart 0\n");
  CHECK(contains(second->out() + third->out(), "rank 0 of 2"));
  // When it is back it is a node like any other.
  site.cluster.hosts.plug_in(0);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 0\n", 2);
  // Fewer than two nodes are left: the job ends.
  third->signal(SIGTERM);
  CHECK(third->wait().code == 143);
  first->expect_out(" of 2, restart 0\n", before + 1);
  second->expect_out(" of 2, restart 0\n", before + 2);
  // One at a time: what is sent to a coordinator just after a transfer is lost.
  for (const auto* const each : {&first, &second}) {
    (*each)->signal(SIGTERM);
    CHECK((*each)->wait().code == 143);
  }
  site.end();
}

TEST_CASE(
    "a node that hosts the coordinator and has finished its work is lost, and the others "
    "finish") {
  Site site("2");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  const auto first = site.begin(0, {}, {worker(), "seat"});
  first->expect_err("waiting");
  const Directory place;
  const std::string bell = place.path() + "/bell";
  REQUIRE(run({"mkfifo", bell}).code == 0);
  const auto second = site.begin(1, {}, {worker(), "seat", "await", bell});
  second->expect_out(" of 2, restart 0\n");
  first->expect_out(" of 2, restart 0\n");
  // Until the next coordinator knows that.
  const auto is_recorded = [&] { return contains(site.keys({}), "succeeded"); };
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!is_recorded() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  REQUIRE(is_recorded());
  first->signal(SIGKILL);
  (void)first->wait();
  second->expect_err("leadership moved from");
  std::ofstream(bell) << "go";
  CHECK(second->wait().code == 0);
  site.end();
}

TEST_CASE("a killed rendezvous process is reported and restarted, and the job succeeds") {
  Site site("2");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.cluster.workers = "2";
  Gate gate;
  Words program = {from_build("CPPRUN_STORE_WORKER")};
  const Words adds = adds_in(6, &gate);
  program.insert(program.end(), adds.begin(), adds.end());
  const auto first = site.begin(0, {}, program);
  first->expect_err("waiting");
  const auto second = site.begin(1, {}, program);
  first->expect_out("sum is ");
  for (std::size_t times = 1; times <= 2; ++times) {
    // The rendezvous process that hosts the coordinator; then its replacement.
    CHECK(
        run({"/bin/sh", "-c",
             "for i in $(seq 200); do p=$(pgrep -x job-rendezvous -P $(pgrep -x job-supervisor "
             "-P " +
                 std::to_string(first->pid()) + ")) && exec kill -9 $p; sleep 0.05; done; exit 1"})
            .code == 0);
    first->expect_err("was killed by SIGKILL; restarting it in", times);
    first->expect_out("sum is ", 2 * times + 1);
  }
  // A new process removes the socket of the previous one once its own exists.
  CHECK(
      run({"/bin/sh", "-c",
           "for i in $(seq 400); do p=$(pgrep -x job-rendezvous -P $(pgrep -x job-supervisor -P " +
               std::to_string(first->pid()) + ")) && [ -S " + site.cluster.temporary.path() +
               "/cpprun-0/node0-$p.sock ] && exit 0; sleep 0.05; done; exit 1"})
          .code == 0);
  gate.open();
  for (const auto* const each : {&first, &second}) {
    const auto ended = (*each)->wait();
    CHECK(ended.code == 0);
    CHECK_FALSE(contains(ended.err, "is_host"));
  }
  CHECK(site.keys() == "");
  site.end();
}

TEST_CASE("the supervisor of a node's rendezvous process is killed, and the node reports it") {
  Site site("1");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  const auto only = site.begin(0);
  only->expect_out(" of 1, restart 0\n");
  CHECK(run({"/bin/sh", "-c",
             "kill -9 $(pgrep -x job-supervisor -P " + std::to_string(only->pid()) + ")"})
            .code == 0);
  only->expect_err("the supervisor of its rendezvous process");
  only->signal(SIGTERM);
  CHECK(only->wait().code == 143);
  site.end();
}

TEST_CASE("nodes that exit with their job leave nothing behind, nor in etcd") {
  Site site("3");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.cluster.workers = "2";
  const Words adds = adds_in(2);
  Words program = {from_build("CPPRUN_STORE_WORKER")};
  program.insert(program.end(), adds.begin(), adds.end());
  const auto first = site.begin(0, {}, program);
  const auto second = site.begin(1, {}, program);
  const auto third = site.begin(2, {}, program);
  for (const auto* const each : {&first, &second, &third}) {
    const auto ended = (*each)->wait();
    CHECK(ended.code == 0);
    CHECK(contains(ended.out, "sum is " + std::to_string(6 * 2 * adds_per_step) + "\n"));
  }
  CHECK(site.keys() == "");
  site.end();
}

TEST_CASE("a failure costs one restart on any coordinator, and the report is the same") {
  Site site("2:3");
  if (const auto why = site.etcd.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  const Words flags = {"--max-restarts=1"};
  const auto first = site.begin(0, flags);
  first->expect_err("waiting");
  const auto second = site.begin(1, flags);
  const auto third = site.begin(2, flags);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 0\n");
  ::kill(pid_of(*third, contains(third->out(), "pid of rank 2") ? "2" : "1"), SIGKILL);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 1\n");
  site.cluster.hosts.pull_cable(0);
  expect_each({second.get(), third.get()}, " of 2, restart 1\n");
  const bool is_second = contains(second->out(), "rank 0 of 2");
  ::kill(pid_of(is_second ? *second : *third, "0"), SIGKILL);
  for (const auto* const each : {&second, &third}) {
    const auto ended = (*each)->wait();
    CHECK(ended.code == 137);
    CHECK(contains(ended.err, "was killed by SIGKILL"));
  }
  first->signal(SIGKILL);
  (void)first->wait();
  site.end();
}

}  // namespace etcd_meeting_test
