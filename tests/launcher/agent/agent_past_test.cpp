// SPDX-License-Identifier: BSD-3-Clause
// An agent that continues from the past of another one (AgentSuccession): it has the same seat,
// workers and lease, and fails, drains and finishes as the other would have.

#include "launcher/agent/agent_past.h"

#include <doctest/doctest.h>

#include "tests/launcher/agent/agent_stage.h"

namespace agent_past_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

Config of_two_workers() {
  Config config = two_nodes();
  config.local_world_size = 2;
  config.restarts.max = 1;
  return config;
}

// Two workers run since 1 s. The coordinator has answered at 2 s, so the lease lasts until 5 s.
struct Running : Stage {
  explicit Running(bool hosts_coordinator = false, const RestartRules& restarts = {})
      : Stage(hosts_coordinator, with(restarts)) {
    join();
    link::Sealed sealed = seat();
    sealed.restarts_workers = restarts.scope == RestartScope::worker;
    heard(t0, sealed);
    worker(t0 + 1s, supervisor::Started{LocalRank{0}, 100});
    worker(t0 + 1s, supervisor::Started{LocalRank{1}, 101});
    answered(t0 + 2s);
  }
  static Config with(const RestartRules& restarts) {
    Config config = of_two_workers();
    config.restarts = restarts;
    return config;
  }
};

AgentPast past_of(const Stage& stage) {
  auto past = AgentSuccession::past_of(stage.agent);
  REQUIRE(past.has_value());
  return *past;
}

std::string objection_of(const Stage& stage) {
  const auto past = AgentSuccession::past_of(stage.agent);
  return past ? std::string() : past.error().reason;
}

// The other agent.
struct Next : Stage {
  Next(TimePoint now, const AgentPast& past, bool hosts_coordinator = false)
      : Stage(hosts_coordinator, of_two_workers()) {
    agent = Agent(of_two_workers(), facts(hosts_coordinator));
    auto resumed = AgentSuccession::resume(agent, now, past);
    REQUIRE(resumed.has_value());
    specs = *std::move(resumed);
  }
  std::vector<WorkerSpec> specs;
};

}  // namespace

TEST_CASE("the next agent dials at once, and resumes its seat with nothing started again") {
  Running before;
  before.answered(t0 + 5s);
  const AgentPast past = past_of(before);
  CHECK(past.sealed == seat());
  REQUIRE(past.workers.size() == 2);
  CHECK(past.workers[1] == AgentPast::Worker{LocalRank{1}, 101, t0 + 1s, t0 + 1s});
  Next next(t0 + 6s, past);
  CHECK(next.specs.size() == 2);
  CHECK(next.agent.next_deadline() == t0 + 6s);
  const auto dialled = next.agent.advance(t0 + 6s);
  CHECK(all<agent::Dial>(dialled).size() == 1);
  CHECK(all<agent::Work>(dialled).empty());
  const auto up = next.agent.handle(t0 + 6s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(up).size() == 1);
  CHECK(said<link::Join>(up)[0].after == first);
  CHECK_FALSE(said<link::Join>(up)[0].idle);
  CHECK_FALSE(next.agent.check());
}

TEST_CASE("its lease is that of the other agent") {
  Running before;
  const auto lease = of_two_workers().lease();
  Next next(t0 + 3s, past_of(before));
  REQUIRE(next.agent.overdue_at().has_value());
  CHECK(*next.agent.overdue_at() == *before.agent.overdue_at());
  CHECK(*next.agent.overdue_at() <= t0 + 2s + lease);
  // No coordinator answers: the workers are killed when that lease is over, and not later.
  next.agent.advance(t0 + 3s);
  next.agent.handle(t0 + 3s, agent::LinkDown{"refused"});
  const auto lost = next.pass(t0 + 2s + lease);
  CHECK(work<supervisor::SignalGroup>(lost).size() == 2);
}

TEST_CASE("a worker that fails after the upgrade is the node's first failure") {
  Running before;
  Next next(t0 + 3s, past_of(before));
  next.agent.advance(t0 + 3s);
  next.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
  auto failed = next.worker(t0 + 4s, supervisor::Exited{LocalRank{1}, {false, 3}, WallTime{}});
  CHECK(all<supervisor::Failed>(failed).size() == 1);
  next.examine_all(t0 + 4s, failed);
  REQUIRE(said<link::Failed>(failed).size() == 1);
  CHECK(said<link::Failed>(failed)[0].failure.pid == 101);
  // The other worker is stopped.
  CHECK(work<supervisor::SignalMain>(failed).size() == 1);
}

TEST_CASE("workers that have exited with 0 stay so: the round succeeds with the last one") {
  Running before;
  before.worker(t0 + 2s, supervisor::Exited{LocalRank{0}, {}, WallTime{}});
  AgentPast past = past_of(before);
  CHECK(past.workers[0].has_succeeded);
  for (const bool is_swept : {false, true}) {
    CAPTURE(is_swept);
    past.workers[0].is_swept = is_swept;
    Next next(t0 + 3s, past);
    next.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
    next.worker(t0 + 4s, supervisor::Exited{LocalRank{1}, {}, WallTime{}});
    if (!is_swept) next.worker(t0 + 4s, supervisor::GroupGone{LocalRank{0}});
    next.worker(t0 + 4s, supervisor::GroupGone{LocalRank{1}});
    const auto done = next.worker(t0 + 4s, supervisor::NodeSwept{});
    CHECK(said<link::Succeeded>(done).size() == 1);
  }
}

TEST_CASE("it can be replaced again") {
  Running before;
  const AgentPast past = past_of(before);
  Next next(t0 + 3s, past);
  CHECK(past_of(next) == past);
}

TEST_CASE("the agent of the coordinator's node continues without a lease") {
  Running before(/*hosts_coordinator=*/true);
  Next next(t0 + 3600s, past_of(before), /*hosts_coordinator=*/true);
  CHECK_FALSE(next.agent.overdue_at().has_value());
  const auto dialled = next.agent.advance(t0 + 3600s);
  CHECK(all<agent::Dial>(dialled).size() == 1);
}

TEST_CASE("a state that would be lost is an objection") {
  SUBCASE("no seat") {
    Stage stage(false, of_two_workers());
    CHECK(objection_of(stage) == "this node waits for a place in a round");
    stage.join();
    CHECK(objection_of(stage) == "this node waits for a place in a round");
  }
  SUBCASE("workers are being started") {
    Stage stage(false, of_two_workers());
    stage.join();
    stage.heard(t0, seat());
    stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
    CHECK(objection_of(stage) == "its workers are being started, examined or stopped");
    stage.worker(t0, supervisor::Started{LocalRank{1}, 101});
    CHECK(objection_of(stage).empty());
  }
  SUBCASE("a worker has failed") {
    Running stage;
    stage.worker(t0 + 2s, supervisor::Exited{LocalRank{1}, {false, 3}, WallTime{}});
    CHECK(objection_of(stage) == "its workers are being started, examined or stopped");
  }
  SUBCASE("a drain") {
    Running stage;
    stage.heard(t0 + 2s, link::Drain{.round = first, .reason = "a node is lost"});
    CHECK(objection_of(stage) == "its workers are being stopped");
  }
  SUBCASE("a signal") {
    Running stage;
    stage.agent.handle(t0 + 2s, agent::Signalled{SIGTERM});
    CHECK(objection_of(stage) == "its workers are being stopped");
  }
  SUBCASE("a save that is due") {
    Running stage;
    stage.heard(t0 + 2s, link::Save{.round = first, .signal = SIGUSR1, .at = 3s});
    CHECK_FALSE(objection_of(stage).empty());
    stage.pass(t0 + 3s);
    CHECK(objection_of(stage).empty());
  }
  SUBCASE("workers that change rounds") {
    const Running stage(false, {.max = 1, .reconfigures = true});
    CHECK(objection_of(stage) == "a job with --on-failure=reconfigure cannot be upgraded");
  }
  SUBCASE("a worker that was restarted alone") {
    Running stage(false, {.max = 3, .scope = RestartScope::worker});
    CHECK(objection_of(stage).empty());
    auto failed = stage.worker(t0 + 2s, supervisor::Exited{LocalRank{0}, {false, 3}, WallTime{}});
    stage.examine_all(t0 + 2s, failed);
    stage.worker(t0 + 2s, supervisor::GroupGone{LocalRank{0}});
    stage.heard(t0 + 2s, link::RestartWorker{.round = first, .rank = Rank{1}, .attempt = 1});
    stage.worker(t0 + 2s, supervisor::Started{LocalRank{0}, 102});
    CHECK(objection_of(stage) ==
          "a worker of this node was restarted alone in this round (--restart-scope=worker)");
  }
  SUBCASE("all workers have exited") {
    Running stage;
    for (const int rank : {0, 1}) {
      stage.worker(t0 + 2s, supervisor::Exited{LocalRank{rank}, {}, WallTime{}});
    }
    for (const int rank : {0, 1}) stage.worker(t0 + 2s, supervisor::GroupGone{LocalRank{rank}});
    stage.worker(t0 + 2s, supervisor::NodeSwept{});
    CHECK(objection_of(stage) == "the workers of this node have exited");
  }
}

TEST_CASE("facts that lead to no running round are rejected") {
  Running before;
  AgentPast past = past_of(before);
  Agent agent(of_two_workers(), facts());
  past.workers.pop_back();
  CHECK_FALSE(AgentSuccession::resume(agent, t0 + 3s, past).has_value());
}

TEST_CASE("the result of an upgrade is sent, and again on the next link") {
  Running stage;
  const auto asked = stage.heard(t0 + 2s, link::Upgrade{.number = 7});
  REQUIRE(all<agent::Upgrade>(asked).size() == 1);
  CHECK(all<agent::Upgrade>(asked)[0].number == 7);
  const link::Upgraded told{.number = 7, .version = "9", .error = "no such program"};
  CHECK(said<link::Upgraded>(stage.agent.handle(t0 + 2s, agent::UpgradeEnded{told})) ==
        std::vector{told});
  stage.agent.handle(t0 + 3s, agent::LinkDown{"reset"});
  const auto again = stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Upgraded>(again) == std::vector{told});
}

}  // namespace agent_past_test
