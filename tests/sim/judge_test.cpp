// SPDX-License-Identifier: BSD-3-Clause
// The judge alone: what it takes for a broken promise, and what it does not.

#include "tests/sim/judge.h"

#include <doctest/doctest.h>

#include <set>

namespace judge_test {

using namespace cpprun;
using namespace cpprun::sim;
using namespace std::chrono_literals;

namespace {

// One job of one node and a spare, whose workers are where the test says.
struct Court {
  Court() {
    judge.call({.anybody = [this](int node) { return alive.contains(node); },
                .anybody_but_stuck = [this](int node) { return alive.contains(node); },
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

TEST_CASE("who reads late that a master sealed a round, which another has begun anew, is fenced") {
  Court court;
  court.seal(0, 30000);
  // A daemon that knows nothing counts from 1 again, and gives the seat to the other node.
  court.judge.coordinator_begins([](int) { return false; });
  court.seal(1, 30001);
  court.start(1, 30001);
  court.start(0, 30000);
  CHECK_FALSE(court.judge.verdict());
  SUBCASE("and is to be ended all the same") {
    court.wait(10min);
    CHECK(court.judge.verdict() == "workers of node 0, which has lost its seat, are not ended");
  }
  SUBCASE("its end counts for nobody") {
    court.judge.worker_ended(
        {.node = 0, .rank = Rank{0}, .round = {court.first, 30000}, .cause = CauseOfDeath::done});
    court.judge.coordinator_finishes(0, {.exit_code = 0});
    CHECK(court.judge.verdict() == "the job ended with 0 when 0 of 1 workers had");
  }
}

TEST_CASE(
    "what is told after the end of a hosted job is not compared with a run without strangers") {
  Court court;
  court.seal(0, 30000);
  const link::Finish finish{.exit_code = 1, .reason = "rank 0 on host0 failed"};
  court.judge.node_is_told(0, finish);
  court.judge.coordinator_finishes(0, finish);
  court.judge.node_is_told(1, finish);
  const std::string told = court.judge.story();
  CHECK(told.find("node 0") != std::string::npos);
  CHECK(told.find("node 1") != std::string::npos);
  // The host is still there, perhaps only for the sake of a stranger.
  court.time.at(TimePoint{1s}, [&] { court.judge.node_is_told(1, finish); });
  court.wait(1s);
  CHECK(court.judge.story() == told);
}

TEST_CASE("a round breaks when its nodes are told first, and not when one is told again") {
  Court court;
  court.seal(0, 30000);
  const link::Drain drain{court.first, "1 more node joined"};
  SUBCASE("a node had finished by then") {
    court.judge.coordinator_hears_success(0, court.first);
    court.judge.coordinator_breaks(0, drain);
    CHECK(court.judge.verdict() ==
          "round 1 was broken for newcomers, and a node had finished its work in it");
  }
  SUBCASE("it finished because the word was late") {
    court.judge.coordinator_breaks(0, drain);
    court.judge.coordinator_hears_success(0, court.first);
    court.judge.coordinator_breaks(0, drain);
    CHECK_FALSE(court.judge.verdict());
  }
}

TEST_CASE("whoever has no seat in the round that it starts workers of breaks a promise") {
  Court court;
  court.seal(1, 30000);
  court.start(0, 30000);
  CHECK(court.judge.verdict() == "node 0 has no seat and starts workers");
}

}  // namespace judge_test
