// SPDX-License-Identifier: BSD-3-Clause
// The judge alone: what is a broken promise, and what is not.

#include "tests/sim/judge.h"

#include <doctest/doctest.h>

#include <set>

namespace judge_test {

using namespace cpprun;
using namespace cpprun::sim;
using namespace std::chrono_literals;

namespace {

// One job with one node and a spare; the test places the workers.
struct Court {
  Court() {
    judge.call({.any_alive = [this](int node) { return alive.contains(node); },
                .any_in_round = [this](int node) { return alive.contains(node); },
                .any_alive_but_stuck = [this](int node) { return alive.contains(node); },
                .computing = [this](int node) { return alive.contains(node); },
                .stopped = [](int) { return false; }});
    judge.coordinator_begins([](int) { return false; });
  }
  void seal(int node, int store_port) {
    judge.coordinator_seals(0, {{node, link::Sealed{.round = first, .store_port = store_port}}});
  }
  void start(int node, int store_port) {
    alive.insert(node);
    judge.worker_started(node, {first, store_port}, Rank{0});
  }
  void wait(Duration duration) {
    while (!time.empty() && time.next() <= TimePoint{duration}) time.step();
  }

  const RoundNumber first{1};
  Scenario scenario{.jobs = {{.nodes_min = 1, .nodes_max = 1, .surplus = 1, .workers_per_node = 1}},
                    .has_unidentified = true,
                    .faults = {}};
  Timeline time;
  std::set<int> alive;
  Judge judge{scenario, time};
};

}  // namespace

TEST_CASE("a node that learns late of a round sealed by a former master is fenced") {
  Court court;
  court.seal(0, 30000);
  // A daemon without records counts from 1 again, and gives the seat to the other node.
  court.judge.coordinator_begins([](int) { return false; });
  court.seal(1, 30001);
  court.start(1, 30001);
  court.start(0, 30000);
  CHECK_FALSE(court.judge.verdict());
  SUBCASE("it has to be ended") {
    court.wait(10min);
    CHECK(court.judge.verdict() == "workers of node 0, which has lost its seat, are not ended");
  }
  SUBCASE("its end does not count") {
    court.judge.worker_ended(
        {.node = 0, .rank = Rank{0}, .round = {court.first, 30000}, .cause = CauseOfDeath::done});
    court.judge.coordinator_finishes(0, {.exit_code = 0});
    CHECK(court.judge.verdict() == "the job ended with 0 when 0 of 1 workers had");
  }
}

TEST_CASE("messages after the end of a hosted job are not compared with a run without strangers") {
  Court court;
  court.seal(0, 30000);
  const link::Finish finish{.exit_code = 1, .reason = "rank 0 on host0 failed"};
  court.judge.node_receives(0, finish);
  court.judge.coordinator_finishes(0, finish);
  court.judge.node_receives(1, finish);
  const std::string story = court.judge.story();
  CHECK(story.find("node 0") != std::string::npos);
  CHECK(story.find("node 1") != std::string::npos);
  // The host still runs, perhaps only because of an unidentified client.
  court.time.at(TimePoint{1s}, [&] { court.judge.node_receives(1, finish); });
  court.wait(1s);
  CHECK(court.judge.story() == story);
}

TEST_CASE("a round breaks with the first drain message, not with a repeated one") {
  Court court;
  court.seal(0, 30000);
  const link::Drain drain{court.first, "1 more node joined"};
  SUBCASE("the node had finished by then") {
    court.judge.coordinator_hears_success(0, court.first);
    court.judge.coordinator_breaks(0, drain);
    CHECK(court.judge.verdict() ==
          "round 1 was broken for newcomers, and a node had finished its work in it");
  }
  SUBCASE("the node finished because the message was late") {
    court.judge.coordinator_breaks(0, drain);
    court.judge.coordinator_hears_success(0, court.first);
    court.judge.coordinator_breaks(0, drain);
    CHECK_FALSE(court.judge.verdict());
  }
}

TEST_CASE("a node that starts workers without a seat breaks a promise") {
  Court court;
  court.seal(1, 30000);
  court.start(0, 30000);
  CHECK(court.judge.verdict() == "node 0 has no seat and starts workers");
}

}  // namespace judge_test
