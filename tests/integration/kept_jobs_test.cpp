// SPDX-License-Identifier: BSD-3-Clause
// A cpprund that keeps the state of its jobs (--state): the jobs continue when it is killed,
// stopped or upgraded, and restarts.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace kept_jobs_test {

using namespace cpprun::integration;

namespace {

// Their stores are lost with the daemon. With a secret they would be local, and survive:
// kept_stores_test.
const Words direct = {"--store=direct"};

// On host 0, where no node of a job runs, with a directory that outlives it.
struct Site {
  explicit Site(std::string nodes) : cluster(3, std::move(nodes)) {}

  Command daemon(const Words& more = {}) const {
    Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(0), "--port=29500",
                   "--state=" + state.path(), "--status-access=" + status_access};
    words.insert(words.end(), more.begin(), more.end());
    return Command(cluster.hosts.on(0, words), cluster.options());
  }
  // No state of a finished job is kept, and no process of a daemon is left.
  void expect_nothing_left() const {
    cluster.expect_nothing_left();
    CHECK(state.entries() == std::vector<std::string>{"alive", "lock"});
  }
  // Runs cpprunctl there, which finds the daemon by its socket.
  Ended ctl(const Words& words) const {
    Words all = {from_build("CPPRUNCTL")};
    all.insert(all.end(), words.begin(), words.end());
    const Options looking{
        .variables = {{"TMPDIR", cluster.temporary.path()}, {"XDG_RUNTIME_DIR", ""}}};
    Command waits({"/bin/sh", "-c",
                   "until '" + from_build("CPPRUNCTL") +
                       "' status 2>/dev/null | grep 'without a standby'; do sleep 0.1; done"},
                  looking);
    CHECK(waits.wait().code == 0);
    return Command(all, looking).wait();
  }
  Cluster cluster;
  Directory state;
  std::string status_access = "none";  // a killed daemon could not remove its control socket
};

}  // namespace

TEST_CASE(
    "a job continues when its daemon is killed or stopped and restarts, and no restart is "
    "spent") {
  const Site site("2");
  const Cluster& cluster = site.cluster;
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = site.daemon();
  daemon.expect_out("\n");
  // Without --max-restarts: a lost node ends the job.
  Command first(cluster.node(1, direct), cluster.options());
  Command second(cluster.node(2, direct), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  kill_at_once(daemon);
  Command again = site.daemon();
  expect_each({&first, &second}, " of 2, restart 0\n", 2);
  for (Command* const each : {&first, &second}) {
    each->expect_err("cpprund was restarted, and the store of the round was lost");
  }
  again.expect_err("job \"cluster\" resumes; its 2 nodes must reconnect within 2 s");
  again.signal(SIGTERM);  // As for an upgrade.
  CHECK(again.wait().code == 0);
  Command upgraded = site.daemon();
  expect_each({&first, &second}, " of 2, restart 0\n", 3);
  end_all(first, {&second});
  upgraded.expect_err("job \"cluster\" is over");
  upgraded.signal(SIGTERM);
  CHECK(upgraded.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("with synced records nodes are still answered, and the job continues") {
  const Site site("2");
  const Cluster& cluster = site.cluster;
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = site.daemon({"--state-sync"});
  daemon.expect_out("\n");
  Command first(cluster.node(1, direct), cluster.options());
  Command second(cluster.node(2, direct), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  kill_at_once(daemon);
  Command again = site.daemon({"--state-sync"});
  expect_each({&first, &second}, " of 2, restart 0\n", 2);
  end_all(first, {&second});
  again.expect_err("job \"cluster\" is over");
  again.signal(SIGTERM);
  CHECK(again.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("used restarts stay used after the daemon restarts") {
  const Site site("2");
  const Cluster& cluster = site.cluster;
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = site.daemon();
  daemon.expect_out("\n");
  const Words flags = {"--store=direct", "--max-restarts=1"};
  Command first(cluster.node(1, flags), cluster.options());
  Command second(cluster.node(2, flags), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  ::kill(pid_of(second, "1"), SIGKILL);
  expect_each({&first, &second}, " of 2, restart 1\n");
  kill_at_once(daemon);
  Command again = site.daemon();
  expect_each({&first, &second}, " of 2, restart 1\n", 2);
  ::kill(pid_of(second, "1"), SIGKILL);
  for (Command* const each : {&first, &second}) {
    const auto ended = each->wait();
    CHECK(ended.code == 137);
    CHECK(contains(ended.err, "all 1 restarts are used"));
  }
  again.expect_err("job \"cluster\" is over");
  again.signal(SIGTERM);
  CHECK(again.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("a node that is missing when the daemon restarts is lost, and the job ends as usual") {
  const Site site("2");
  const Cluster& cluster = site.cluster;
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command daemon = site.daemon();
  daemon.expect_out("\n");
  Command first(cluster.node(1, direct), cluster.options());
  Command second(cluster.node(2, direct), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  kill_at_once(daemon);
  second.signal(SIGKILL);
  second.wait_for_exit();
  Command again = site.daemon();
  const auto ended = first.wait();
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "is lost"));
  again.expect_err("job \"cluster\" is over");
  again.signal(SIGTERM);
  CHECK(again.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("an excluded host stays excluded from all later jobs when the daemon restarts") {
  Site site("1");
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  site.status_access = "user";
  Command daemon = site.daemon();
  daemon.expect_out("\n");
  const Ended done = site.ctl({"exclude", Hosts::host_name(1), "--for=3600"});
  CHECK_MESSAGE(done.code == 0, done.err);
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
  Command again = site.daemon();
  again.expect_err("still excluded from all new jobs: " + Hosts::host_name(1));
  const Ended refused = Command(site.cluster.node(1, direct), site.cluster.options()).wait();
  CHECK(refused.code == 1);
  CHECK_MESSAGE(contains(refused.err, Hosts::host_name(1) + " is excluded for 3"), refused.err);
  CHECK(site.ctl({"include", Hosts::host_name(1)}).code == 0);
  CHECK(contains(site.ctl({"include", Hosts::host_name(1)}).err, "is not excluded"));
  again.signal(SIGTERM);
  CHECK(again.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("a host that is excluded from one job keeps its seat in another, and can get more") {
  Site site("1:2");
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  site.status_access = "user";
  Cluster& cluster = site.cluster;
  Command daemon = site.daemon();
  daemon.expect_out("\n");
  cluster.job = "a";
  Command of_a(cluster.node(1, direct), cluster.options());
  cluster.job = "b";
  Command of_b(cluster.node(2, direct), cluster.options());
  expect_each({&of_a, &of_b}, " of 1, restart 0\n");
  const Ended done = site.ctl({"exclude", Hosts::host_name(1), "--job", "b"});
  CHECK_MESSAGE(done.code == 0, done.err);
  const Ended refused = Command(cluster.node(1, direct), cluster.options()).wait();
  CHECK(refused.code == 1);
  CHECK_MESSAGE(contains(refused.err, Hosts::host_name(1) + " is excluded"), refused.err);
  cluster.job = "c";
  Command of_c(cluster.node(1, direct), cluster.options());
  expect_each({&of_c}, " of 1, restart 0\n");
  CHECK(count(of_a.out(), "restart") == 1);
  for (Command* const each : {&of_a, &of_b, &of_c}) end_all(*each, {});
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
  site.expect_nothing_left();
}

TEST_CASE("an unusable state directory is rejected before any client is served") {
  const Directory directory;
  Command daemon({from_build("CPPRUND"), "--port=0", "--state=" + directory.path() + "/no/where"},
                 {});
  const auto refused = daemon.wait();
  CHECK(refused.code == 1);
  CHECK(contains(refused.err, "--state: cannot create the directory"));
}

}  // namespace kept_jobs_test
