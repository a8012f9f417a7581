// SPDX-License-Identifier: BSD-3-Clause
// A job whose master is lost, with or without its host: another node takes over. The remaining
// nodes spend no restart, and the old master does no harm when it is back.

#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"

namespace standby_test {

using namespace cpprun::integration;

namespace {

constexpr const char* became_leader = "lost the master; this node is the leader now";

std::string status_of(pid_t pid) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(pid) + "/status").rdbuf();
  return text.str();
}

// It does not run: it is a zombie, or about to be one as soon as it has a processor.
bool is_killed(const std::string& status) {
  constexpr unsigned long kill_bit = 1UL << (SIGKILL - 1);
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("State:") && contains(line, "Z (zombie)")) return true;
    const bool is_pending = line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    if (is_pending && (std::stoul(line.substr(7), nullptr, 16) & kill_bit) != 0) return true;
  }
  return false;
}

// Three or more nodes at work, all of which know the standby.
struct Covered {
  explicit Covered(const Words& flags = {}, const Words& program = {"pid", "seat", "hang"},
                   const std::string& wanted = "2:3", int count = 3)
      : cluster(count, wanted) {
    if (!cluster.hosts.why_not().empty()) {
      skip(cluster.hosts.why_not());
      return;
    }
    for (int host = 0; host < count; ++host) {
      nodes.push_back(std::make_unique<Command>(node(host, flags, program), cluster.options()));
    }
    for (const auto& each : nodes)
      each->expect_out(" of " + std::to_string(count) + ", restart 0\n");
    expect_cover();
  }
  void expect_cover(std::size_t rounds = 1) const {
    for (const auto& each : nodes) each->expect_err("is the standby of the master", rounds);
  }
  Words node(int host, Words flags = {}, Words program = {"pid", "seat", "hang"}) const {
    flags.push_back("--log-level=debug");
    program.insert(program.begin(), worker());
    return cluster.node(host, flags, program);
  }
  bool is_there() const { return !nodes.empty(); }
  Command& first() const { return *nodes[0]; }
  Command& second() const { return *nodes[1]; }
  Command& third() const { return *nodes[2]; }

  Cluster cluster;
  std::vector<std::unique_ptr<Command>> nodes;
};

// A client polls the port at which it was the leader: it answers, whatever it knows.
void look_at_events(const Cluster& cluster, int host) {
  const Ended looked =
      run(cluster.hosts.on(host, {"bash", "-c",
                                  "exec 3<>/dev/tcp/" + Hosts::address(0) +
                                      "/29500; printf 'GET /api/v1/events HTTP/1.1\\r\\nHost: " +
                                      Hosts::address(0) + "\\r\\n\\r\\n' >&3; head -c 8 <&3"}));
  CHECK_MESSAGE(looked.out == "HTTP/1.1", looked.err);
}

}  // namespace

TEST_CASE("a master whose host loses power is lost, and the other two nodes continue") {
  const Covered job;
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  Command& first = job.first();
  Command& second = job.second();
  Command& third = job.third();
  cluster.hosts.pull_cable(0);
  first.signal(SIGKILL);
  first.wait_for_exit();
  second.expect_err(became_leader);
  expect_each({&second, &third}, " of 2, restart 0\n");
  second.expect_err("node 0 on node0 is lost: it hosted the job and does not respond");
  second.expect_out("rank 0 of 2");
  end_all(second, {&third});
  cluster.expect_nothing_left();
}

TEST_CASE("a master whose cable is pulled ends its workers, and rejoins the new leader") {
  const Covered job;
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  Command& first = job.first();
  Command& second = job.second();
  Command& third = job.third();
  cluster.hosts.pull_cable(0);
  first.expect_err("too few");
  first.expect_err("rejoining (timeout");
  second.expect_err(became_leader);
  expect_each({&second, &third}, " of 2, restart 0\n");
  cluster.hosts.plug_in(0);
  expect_each({&first, &second, &third}, " of 3, restart 0\n", 2);
  end_all(second, {&first, &third});
  cluster.expect_nothing_left();
}

TEST_CASE("a master that is stopped, and resumes after another became the leader, does no harm") {
  const Covered job;
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  Command& first = job.first();
  Command& second = job.second();
  Command& third = job.third();
  const pid_t worker = pid_of(first, "0");
  first.signal(SIGSTOP);
  expect_each({&second, &third}, " of 2, restart 0\n");
  // Its watchdog has ended it before the others restarted; it is not reaped yet.
  const std::string status = status_of(worker);
  CHECK_MESSAGE(is_killed(status), status);
  first.signal(SIGCONT);
  expect_each({&first, &second, &third}, " of 3, restart 0\n", 2);
  look_at_events(cluster, 0);
  end_all(second, {&first, &third});
  cluster.expect_nothing_left();
}

TEST_CASE("a master that restarts finds the new leader, and is a node like any other") {
  const Covered job;
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  Command& first = job.first();
  Command& second = job.second();
  Command& third = job.third();
  first.signal(SIGKILL);
  first.wait_for_exit();
  expect_each({&second, &third}, " of 2, restart 0\n");
  Command restarted(job.node(0), cluster.options());
  restarted.expect_err("has another leader, node1; this node joins it");
  expect_each({&restarted, &second, &third}, " of 3, restart 0\n", 1);
  look_at_events(cluster, 0);
  end_all(second, {&restarted, &third});
  cluster.expect_nothing_left();
}

TEST_CASE("a master that is cut off while its round drains is the leader again when it is back") {
  // The drain takes as long as the grace period, and the others know of it.
  const Covered job({"--max-restarts=1", "--shutdown-timeout=5"},
                    {"ignore_term", "pid", "seat", "hang"});
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  ::kill(pid_of(job.third(), "2"), SIGKILL);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) {
    each->expect_err("stopping the workers");
  }
  cluster.hosts.pull_cable(0);
  job.first().expect_err("is lost: no response for", 2);
  cluster.hosts.plug_in(0);
  expect_each({&job.first(), &job.second(), &job.third()}, " of 3, restart ", 2);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) each->signal(SIGKILL);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) each->wait_for_exit();
  cluster.expect_nothing_left();
}

TEST_CASE("a master that is stopped while its round drains is the leader again when it resumes") {
  const Covered job({"--max-restarts=1", "--shutdown-timeout=5"},
                    {"ignore_term", "pid", "seat", "hang"});
  if (!job.is_there()) return;
  ::kill(pid_of(job.third(), "2"), SIGKILL);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) {
    each->expect_err("stopping the workers");
  }
  job.first().signal(SIGSTOP);
  for (Command* const each : {&job.second(), &job.third()}) {
    each->expect_err("rejoining (timeout");
  }
  job.first().signal(SIGCONT);
  expect_each({&job.first(), &job.second(), &job.third()}, " of 3, restart 1\n");
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) each->signal(SIGKILL);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) each->wait_for_exit();
  job.cluster.expect_nothing_left();
}

TEST_CASE("a master that is lost while its round drains has a successor, and a restart counts") {
  for (const bool has_failed : {true, false}) {
    CAPTURE(has_failed);
    const Covered job({"--max-restarts=1", "--shutdown-timeout=20"},
                      {"ignore_term", "pid", "seat", "hang"});
    if (!job.is_there()) return;
    if (has_failed) {
      ::kill(pid_of(job.third(), "2"), SIGKILL);
    } else {
      job.first().signal(SIGTERM);
    }
    for (Command* const each : {&job.first(), &job.second(), &job.third()}) {
      each->expect_err("stopping the workers");
    }
    job.first().signal(SIGKILL);
    job.first().wait_for_exit();
    job.second().expect_err(became_leader);
    expect_each({&job.second(), &job.third()},
                has_failed ? " of 2, restart 1\n" : " of 2, restart 0\n");
    for (Command* const each : {&job.second(), &job.third()}) each->signal(SIGKILL);
    for (Command* const each : {&job.second(), &job.third()}) each->wait_for_exit();
    job.cluster.expect_nothing_left();
  }
}

TEST_CASE("a master that is lost after its standby is succeeded by another node") {
  for (const bool is_preempted : {true, false}) {
    CAPTURE(is_preempted);
    const Covered job({"--shutdown-timeout=20"}, {"ignore_term", "pid", "seat", "hang"}, "2:4", 4);
    if (!job.is_there()) return;
    Command& fourth = *job.nodes[3];
    job.second().signal(is_preempted ? SIGTERM : SIGKILL);
    for (Command* const each : {&job.first(), &job.third(), &fourth}) {
      each->expect_err("stopping the workers");
      // Of the same round, but at another address.
      each->expect_err("is the standby of the master", 2);
    }
    job.first().signal(SIGKILL);
    job.first().wait_for_exit();
    job.third().expect_err(became_leader);
    expect_each({&job.third(), &fourth}, " of 2, restart 0\n");
    for (const auto& each : job.nodes) each->signal(SIGKILL);
    for (const auto& each : job.nodes) each->wait_for_exit();
    job.cluster.expect_nothing_left();
  }
}

TEST_CASE("a master that is preempted while its round drains also transfers the failures") {
  const Covered job({"--max-restarts=1", "--shutdown-timeout=2"},
                    {"ignore_term", "pid", "seat", "hang"});
  if (!job.is_there()) return;
  ::kill(pid_of(job.third(), "2"), SIGKILL);
  for (Command* const each : {&job.first(), &job.second(), &job.third()}) {
    each->expect_err("stopping the workers");
  }
  job.first().signal(SIGTERM);
  const auto left = job.first().wait();
  CHECK_MESSAGE(left.code == 143, left.err);
  expect_each({&job.second(), &job.third()}, " of 2, restart 1\n");
  for (Command* const each : {&job.second(), &job.third()}) each->signal(SIGKILL);
  for (Command* const each : {&job.second(), &job.third()}) each->wait_for_exit();
  job.cluster.expect_nothing_left();
}

TEST_CASE("a master that is preempted while its standby is lost transfers leadership to another") {
  const Covered job({"--shutdown-timeout=6"}, {"ignore_term", "pid", "seat", "hang"}, "1:3");
  if (!job.is_there()) return;
  job.first().signal(SIGTERM);
  job.third().expect_err("stopping the workers");
  job.second().signal(SIGKILL);
  const auto left = job.first().wait();
  CHECK_MESSAGE(left.code == 143, left.err);
  job.third().expect_err("transferred leadership: this node is now the leader");
  job.third().expect_out(" of 1, restart 0\n");
  job.third().signal(SIGKILL);
  for (Command* const each : {&job.second(), &job.third()}) each->wait_for_exit();
  job.cluster.expect_nothing_left();
}

TEST_CASE("a master that is preempted transfers leadership, and the job continues without it") {
  const Covered job;
  if (!job.is_there()) return;
  job.first().signal(SIGTERM);
  const auto left = job.first().wait();
  CHECK_MESSAGE(left.code == 143, left.err);
  job.second().expect_err("transferred leadership: this node is now the leader");
  expect_each({&job.second(), &job.third()}, " of 2, restart 0\n");
  CHECK_FALSE(contains(job.second().err(), "is lost"));
  end_all(job.second(), {&job.third()});
  job.cluster.expect_nothing_left();
}

TEST_CASE("used restarts stay used under a new leader") {
  const Covered job({"--max-restarts=1"});
  if (!job.is_there()) return;
  const Cluster& cluster = job.cluster;
  Command& first = job.first();
  Command& second = job.second();
  Command& third = job.third();
  ::kill(pid_of(third, "2"), SIGKILL);
  expect_each({&first, &second, &third}, " of 3, restart 1\n");
  job.expect_cover(2);
  first.signal(SIGKILL);
  first.wait_for_exit();
  expect_each({&second, &third}, " of 2, restart 1\n");
  ::kill(pid_of(third, "1"), SIGKILL);
  for (Command* const each : {&second, &third}) {
    const auto ended = each->wait();
    CHECK(ended.code == 137);
    CHECK(contains(ended.err, "all 1 restarts are used"));
  }
  cluster.expect_nothing_left();
}

TEST_CASE("without a standby the others wait for their master") {
  const Cluster cluster(3, "2:3");
  if (const auto& why = cluster.hosts.why_not(); !why.empty()) return skip(why);
  const Words flags = {"--standby=none"};
  Command first(cluster.node(0, flags), cluster.options());
  Command second(cluster.node(1, flags), cluster.options());
  Command third(cluster.node(2, flags), cluster.options());
  expect_each({&first, &second, &third}, " of 3, restart 0\n");
  first.signal(SIGKILL);
  first.wait_for_exit();
  for (Command* const each : {&second, &third}) {
    each->expect_err("rejoining (timeout");
    each->signal(SIGTERM);
    CHECK(each->wait().code == 143);
  }
  cluster.expect_nothing_left();
}

}  // namespace standby_test
