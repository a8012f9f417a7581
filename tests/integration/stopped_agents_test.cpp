// SPDX-License-Identifier: BSD-3-Clause
// Agents that are killed, stopped, continued or asked to leave, and workers that are killed: how
// the other nodes react.

#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"

namespace stopped_agents_test {

using namespace cpprun::integration;

namespace {

// That process and all below it: the watchdog and the workers, too.
std::vector<pid_t> family_of(pid_t root) {
  std::vector<pid_t> family = {root};
  for (std::size_t at = 0; at < family.size(); ++at) {
    for (const auto& each : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(each.path() / "stat");
      std::string stat;
      std::getline(file, stat);
      const auto end = stat.rfind(')');
      if (end == std::string::npos) continue;
      if (std::atoi(stat.c_str() + end + 4) == family[at]) {
        family.push_back(std::atoi(stat.c_str()));
      }
    }
  }
  return family;
}

}  // namespace

TEST_CASE(
    "kill -9 of a worker on node 1 of two by two: four new workers, restart count 1 on all "
    "nodes") {
  Cluster cluster(2, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  cluster.workers = "2";
  const Words flags = {"--max-restarts=3"};
  Command first(cluster.node(0, flags), cluster.options());
  Command second(cluster.node(1, flags), cluster.options());
  expect_each({&first, &second}, " of 4, restart 0\n", 2);
  const auto before = std::to_string(pid_of(second, "3"));
  ::kill(pid_of(second, "3"), SIGKILL);
  expect_each({&first, &second}, " of 4, restart 1\n", 2);
  CHECK(count(first.out(), "pid of rank") == 4);
  CHECK(count(second.out(), "pid of rank") == 4);
  CHECK(std::to_string(pid_of(second, "3")) != before);
  second.expect_err("rank 3");
  second.expect_err("SIGKILL");
  // The other node receives the rank that failed.
  first.expect_err("rank 3 on node1 failed");
  end_all(first, {&second});
  cluster.expect_nothing_left();
}

TEST_CASE("kill -9 of an agent ends its workers at once, and the others continue without it") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  second.signal(SIGKILL);
  second.expect_no_process_left();
  expect_each({&first, &third}, " of 2, restart 0\n");
  first.expect_err("node1 is lost");
  end_all(first, {&third});
  cluster->expect_nothing_left();
}

TEST_CASE("an agent that is stopped for longer than the lease is lost; continued, it rejoins") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  const pid_t worker_of_second = pid_of(second, "1");
  second.signal(SIGSTOP);
  expect_each({&first, &third}, " of 2, restart 0\n");
  // It cannot end its worker before another has that rank; its watchdog does.
  CHECK(ends_in_time(worker_of_second));
  second.signal(SIGCONT);
  expect_each({&first, &second, &third}, " of 3, restart 0\n", 2);
  second.expect_err("rejoining (timeout");
  end_all(first, {&second, &third});
  cluster->expect_nothing_left();
}

TEST_CASE("a job that is suspended as a whole for longer than the lease keeps its workers") {
  const Cluster cluster(2, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  Command first(cluster.node(0), cluster.options());
  Command second(cluster.node(1), cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  std::vector<pid_t> all = family_of(first.pid());
  for (const pid_t each : family_of(second.pid())) all.push_back(each);
  for (const pid_t each : all) ::kill(each, SIGSTOP);
  run({"sleep", "5"});
  for (const pid_t each : all) ::kill(each, SIGCONT);
  second.expect_err("the master confirmed this node's place in the job");
  CHECK(count(first.out(), "pid of rank") == 1);
  CHECK(count(second.out(), "pid of rank") == 1);
  end_all(first, {&second});
  CHECK_FALSE(contains(first.err(), "is lost"));
  CHECK_FALSE(contains(second.err(), "lost contact with master"));
  cluster.expect_nothing_left();
}

TEST_CASE("while the master is stopped for longer than the lease, the others end their workers") {
  const auto nodes = three_at_work("3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  first.signal(SIGSTOP);
  for (Command* const each : {&second, &third}) {
    const auto ended = each->wait();
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, "lost contact with master 10.77.0.1:29500"));
    each->expect_no_worker_left();
  }
  first.signal(SIGCONT);
  first.expect_err("is lost");
  first.signal(SIGTERM);
  CHECK(first.wait().code != 0);
  cluster->expect_nothing_left();
}

TEST_CASE("a node that is preempted leaves an elastic job, which continues at once") {
  const auto nodes = three_at_work("2:3");
  if (!nodes) return;
  auto& [cluster, first, second, third] = *nodes;
  third.signal(SIGTERM);
  CHECK(third.wait().code == 143);
  expect_each({&first, &second}, " of 2, restart 0\n");
  first.expect_err("node 2 on node2 leaves: asked to stop by SIGTERM");
  CHECK_FALSE(contains(first.err(), "is lost"));
  // One node would be left, and the job needs at least two: it ends.
  second.signal(SIGTERM);
  CHECK(second.wait().code == 143);
  CHECK(first.wait().code == 143);
  cluster->expect_nothing_left();
}

}  // namespace stopped_agents_test
