// SPDX-License-Identifier: BSD-3-Clause
// An agent that loses its coordinator and continues the job with another one.

#include <doctest/doctest.h>

#include <csignal>
#include <memory>

#include "rendezvous/job/bounds.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_standby_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

Config elastic() {
  Config config = two_nodes();
  config.node_rank.reset();
  config.nodes_min = 1;
  config.nodes_max = 3;
  return config;
}

const Endpoint master{"10.0.0.1", 29500};
const Endpoint standby{"10.0.0.9", 4711};
constexpr Duration timeout = bounds::vote_timeout(3s);

// Running, with a standby that is another node, or itself.
struct Elastic : Stage {
  explicit Elastic(bool is_standby = false) : Stage(false, elastic()) {
    run();
    if (is_standby) {
      heard(t0, link::Record{first, 0, 2, "ab"});
      kept = heard(t0, link::Record{first, 1, 2, "cd"});
      stands = agent.handle(t0, agent::StandsBy{first, 4711});
    }
    heard(t0, link::Standby{first, standby.host, standby.port});
  }
  // The master no longer answers, and the worker is gone.
  Agent::Actions lose_master() {
    agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
    auto actions = pass(t0 + 2750ms);
    append(actions, end_worker(t0 + 2800ms, {true, SIGKILL}));
    agent.handle(t0 + 2800ms, agent::LinkDown{"no answer"});
    return actions;
  }
  // All endpoints that it dials until then.
  std::vector<Endpoint> dialled(TimePoint until) {
    std::vector<Endpoint> places;
    for (auto due = agent.next_deadline(); due && *due <= until; due = agent.next_deadline()) {
      for (const auto& dial : all<agent::Dial>(agent.advance(*due))) {
        places.push_back(dial.at);
        agent.handle(*due, agent::LinkDown{"no answer"});
      }
    }
    return places;
  }
  Agent::Actions kept;
  Agent::Actions stands;
};

}  // namespace

TEST_CASE("a join states that this node can lead, where that is useful") {
  Agent able{elastic(), facts()};
  able.start(t0);
  CHECK(said<link::Join>(able.handle(t0, agent::LinkUp{"10.0.0.2"}))[0].can_lead);
  Config fixed = elastic();
  fixed.nodes_min = 3;
  Config two = elastic();
  two.nodes_max = 2;
  Config none = elastic();
  none.standby = false;
  for (const Config& each : {fixed, two, none}) {
    Agent agent{each, facts()};
    agent.start(t0);
    CHECK_FALSE(said<link::Join>(agent.handle(t0, agent::LinkUp{"10.0.0.2"}))[0].can_lead);
  }
}

TEST_CASE(
    "a node that lost its master dials it until it may vote, then alternates with the standby") {
  Elastic stage;
  stage.lose_master();
  const auto before = stage.dialled(t0 + timeout - 1ms);
  CHECK_FALSE(before.empty());
  for (const Endpoint& each : before) CHECK(each == master);
  const auto later = stage.dialled(t0 + timeout + 3s);
  REQUIRE(later.size() > 3);
  for (std::size_t i = 0; i < later.size(); ++i) CHECK(later[i] == (i % 2 == 0 ? standby : master));
}

TEST_CASE("a vote binds until the standby answers that it is not the leader") {
  Elastic stage;
  stage.lose_master();
  stage.dialled(t0 + timeout - 1ms);
  REQUIRE(all<agent::Dial>(stage.agent.advance(t0 + timeout))[0].at == standby);
  const auto joined = stage.agent.handle(t0 + timeout, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(joined).size() == 1);
  CHECK(said<link::Join>(joined)[0].vote == first);
  CHECK(said<link::Join>(joined)[0].after == RoundNumber{});
  stage.agent.handle(t0 + 5s, agent::LinkDown{"connection reset"});
  for (const Endpoint& each : stage.dialled(t0 + 30s)) CHECK(each == standby);
  // The standby is up again, and answers.
  stage.agent.advance(t0 + 31s);
  stage.agent.handle(t0 + 31s, agent::LinkUp{"10.0.0.2"});
  stage.heard(t0 + 31s, link::NotLeading{"the coordinator responds again"});
  stage.agent.handle(t0 + 31s, agent::LinkDown{"closed"});
  const auto free = stage.dialled(t0 + 40s);
  CHECK(std::ranges::count(free, master) > 0);
}

TEST_CASE("a master that is back is followed without a vote, and no other leader is") {
  Elastic stage;
  stage.lose_master();
  stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
  stage.agent.handle(t0 + 3100ms, agent::LinkDown{"connection reset"});
  for (const Endpoint& each : stage.dialled(t0 + 20s)) CHECK(each == master);
}

TEST_CASE("a node that has drained, or has succeeded, has no vote") {
  for (const bool drained : {true, false}) {
    CAPTURE(drained);
    Elastic stage;
    Agent::Actions ended;
    if (drained) stage.heard(t0 + 1s, link::Drain{first, "rank 0 failed"});
    ended =
        stage.end_worker(t0 + 1s, drained ? link::ExitStatus{true, SIGTERM} : link::ExitStatus{});
    if (drained) {
      REQUIRE(said<link::Drained>(ended).size() == 1);
      CHECK(said<link::Drained>(ended)[0].asked);
    }
    stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
    stage.pass(t0 + 2750ms);
    stage.agent.handle(t0 + 3s, agent::LinkDown{"no answer"});
    std::optional<link::Join> join;
    for (auto due = stage.agent.next_deadline(); !join && due && *due < t0 + 9s;
         due = stage.agent.next_deadline()) {
      for (const auto& dial : all<agent::Dial>(stage.agent.advance(*due))) {
        if (dial.at == master) {
          stage.agent.handle(*due, agent::LinkDown{"no answer"});
          continue;
        }
        join = said<link::Join>(stage.agent.handle(*due, agent::LinkUp{"10.0.0.2"}))[0];
      }
    }
    // It asks the standby for a seat, or for the job's result.
    REQUIRE(join);
    CHECK(join->vote == RoundNumber{});
    CHECK(join->done == !drained);
  }
}

TEST_CASE("a node whose round drains can vote until it is asked to give up its vote") {
  for (const bool recalled : {false, true}) {
    CAPTURE(recalled);
    Elastic stage;
    stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed", .keeps_vote = true});
    const auto drained = stage.end_worker(t0, {true, SIGTERM});
    REQUIRE(said<link::Drained>(drained).size() == 1);
    CHECK_FALSE(said<link::Drained>(drained)[0].asked);
    if (recalled) {
      const auto again = stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed"});
      REQUIRE(said<link::Drained>(again).size() == 1);
      CHECK(said<link::Drained>(again)[0].asked);
    }
    stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
    stage.pass(t0 + 2750ms);
    stage.agent.handle(t0 + 2800ms, agent::LinkDown{"no answer"});
    stage.dialled(t0 + timeout - 1ms);
    REQUIRE(all<agent::Dial>(stage.agent.advance(t0 + timeout))[0].at == standby);
    const auto joined = stage.agent.handle(t0 + timeout, agent::LinkUp{"10.0.0.2"});
    REQUIRE(said<link::Join>(joined).size() == 1);
    CHECK(said<link::Join>(joined)[0].vote == (recalled ? RoundNumber{} : first));
  }
}

TEST_CASE(
    "a node that loses its master while the job is being stopped does not wait for a leader") {
  Elastic stage;
  stage.heard(t0,
              link::Drain{.round = first, .reason = "an operator stopped it", .ends_job = true});
  stage.end_worker(t0, {true, SIGTERM});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto last = all<events::JobEnded>(stage.pass(t0 + 2750ms));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 1);
  CHECK(last[0].reason.ends_with("; the job was being stopped"));
}

TEST_CASE("while the job is being stopped no standby can lead, and the workers have time to save") {
  Elastic stage;
  stage.heard(t0,
              link::Drain{.round = first, .reason = "an operator stopped it", .ends_job = true});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  stage.agent.handle(t0 + 2s, agent::LinkDown{.reason = "refused", .refused = true});
  CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + 2750ms)).empty());
  CHECK(all<events::JobEnded>(stage.end_worker(t0 + 4s, {})).size() == 1);
}

TEST_CASE("a master without a majority that is asked to stop waits for a leader") {
  const auto begin = [] {
    auto stage = std::make_unique<Stage>(true, elastic());
    stage->run();
    stage->heard(t0, link::Standby{first, standby.host, standby.port});
    stage->agent.handle(t0, agent::LeadsUntil{t0 + 3s});
    stage->agent.handle(t0 + 1s, agent::Signalled{.signal = SIGTERM});
    stage->heard(t0 + 2s, link::Refused{"too few of the 3 nodes answer"});
    return stage;
  };
  SUBCASE("it becomes the leader again, and transfers leadership") {
    const auto stage = begin();
    stage->agent.handle(t0 + 2s, agent::Leads{.again = true});
    auto actions = stage->end_worker(t0 + 2s, {true, SIGKILL});
    CHECK(all<events::JobEnded>(actions).empty());
    actions = stage->agent.advance(*stage->agent.next_deadline());
    CHECK(all<agent::Dial>(actions).size() == 1);
    stage->agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
    const auto last =
        all<events::JobEnded>(stage->heard(t0 + 3s, link::Led{standby.host, standby.port}));
    REQUIRE(last.size() == 1);
    CHECK(last[0].exit_code == 128 + SIGTERM);
  }
  SUBCASE("it does not for two leases: another node leads, or none can") {
    const auto stage = begin();
    CHECK(all<events::JobEnded>(stage->end_worker(t0 + 2s, {true, SIGKILL})).empty());
    // Nor does it ask another leader for a seat.
    std::vector<events::JobEnded> last;
    for (auto due = stage->agent.next_deadline(); due && last.empty();
         due = stage->agent.next_deadline()) {
      REQUIRE(*due < t0 + 12s);
      const auto actions = stage->agent.advance(*due);
      last = all<events::JobEnded>(actions);
      CHECK(all<agent::Dial>(actions).empty());
    }
    REQUIRE(last.size() == 1);
    CHECK(last[0].exit_code == 128 + SIGTERM);
  }
  SUBCASE("it is asked again") {
    const auto stage = begin();
    stage->end_worker(t0 + 2s, {true, SIGKILL});
    CHECK(all<events::JobEnded>(stage->agent.handle(t0 + 3s, agent::Signalled{.signal = SIGTERM}))
              .size() == 1);
  }
}

TEST_CASE("the standby assembles the record from parts, announces itself, and heartbeats often") {
  Elastic stage{true};
  REQUIRE(all<agent::StandBy>(stage.kept).size() == 1);
  CHECK(all<agent::StandBy>(stage.kept)[0].record == "abcd");
  CHECK(said<link::Stands>(stage.stands).size() == 1);
  stage.answered(t0 + 1s);  // the previous heartbeat is sent
  stage.agent.advance(t0 + 1s);
  CHECK(*stage.agent.next_deadline() < t0 + 1500ms);
  // A part from another link does not belong to the record.
  Elastic other;
  other.heard(t0, link::Record{first, 0, 3, "ab"});
  CHECK(all<agent::StandBy>(other.heard(t0, link::Record{first, 2, 3, "ef"})).empty());
}

TEST_CASE("the standby votes for itself, leads once elected, and is the host from then on") {
  Elastic stage{true};
  auto actions = stage.lose_master();
  CHECK(all<agent::Stand>(actions).empty());
  Stage::append(actions, stage.pass(t0 + timeout));
  REQUIRE(all<agent::Stand>(actions).size() == 1);
  CHECK(all<agent::Stand>(actions)[0].own.vote == first);
  for (const auto& dial : all<agent::Dial>(actions)) CHECK(dial.at == master);
  const auto leads = stage.agent.handle(t0 + 4s, agent::Leads{});
  REQUIRE(all<events::LeaderChanged>(leads).size() == 1);
  CHECK(all<events::LeaderChanged>(leads)[0] ==
        events::LeaderChanged{.from = master, .to = standby, .silence = 4s});
  REQUIRE(all<agent::Dial>(leads).size() == 1);
  CHECK(all<agent::Dial>(leads)[0].at == standby);
  stage.agent.handle(t0 + 4s, agent::LinkUp{"10.0.0.2"});
  const auto round = stage.heard(t0 + 4s, seat(second));
  const auto spawned = work<supervisor::Spawn>(round);
  REQUIRE(spawned.size() == 1);
  CHECK(spawned[0].spec.variables.at("MASTER_ADDR") == standby.host);
  // It looks for a former master that may have restarted.
  const auto looks = all<agent::AskWhoHosts>(stage.agent.advance(t0 + 5s));
  REQUIRE(looks.size() == 1);
  CHECK(looks[0].addresses == std::vector<std::string>{master.host});
  CHECK(looks[0].port == master.port);
  CHECK(looks[0].question.leads_port == standby.port);
}

TEST_CASE(
    "a node that replaces the standby is the standby once it is named, and the old one is not") {
  // Both have the same port.
  const link::Standby before{first, "10.0.0.8", 4711};
  const link::Standby own{first, standby.host, 4711};
  const link::Standby after{first, "10.0.0.7", 4711};
  Elastic stage;
  stage.heard(t0, before);
  stage.heard(t0, link::Drain{.round = first, .reason = "a node leaves", .keeps_vote = true});
  stage.heard(t0, link::Record{first, 0, 1, "abcd"});
  stage.agent.handle(t0, agent::StandsBy{first, 4711});
  bool stands = false;
  SUBCASE("it is not named yet") {}
  SUBCASE("it is named") {
    stage.heard(t0, own);
    stands = true;
  }
  SUBCASE("it is named, and then replaced") {
    stage.heard(t0, own);
    stage.heard(t0, after);
  }
  auto actions = stage.lose_master();
  Stage::append(actions, stage.pass(t0 + timeout));
  CHECK(all<agent::Stand>(actions).size() == (stands ? 1 : 0));
}

TEST_CASE("the standby withdraws its own vote when the master is back") {
  Elastic stage{true};
  stage.lose_master();
  stage.pass(t0 + timeout);
  const auto back = stage.agent.handle(t0 + 4s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(all<agent::Stand>(back).size() == 1);
  CHECK(all<agent::Stand>(back)[0].own.vote == RoundNumber{});
  REQUIRE(said<link::Join>(back).size() == 1);
  // Before that coordinator receives the join of this node.
  CHECK(std::holds_alternative<agent::Stand>(back[0]));
}

TEST_CASE(
    "a master that lost leadership stops its workers at once, and asks the standby for a seat") {
  Stage stage{true, elastic()};
  stage.run();
  stage.heard(t0, link::Standby{first, standby.host, standby.port});
  stage.agent.handle(t0, agent::LeadsUntil{t0 + 3s});
  CHECK(*stage.agent.overdue_at() > t0 + 3s);
  auto actions = stage.heard(t0 + 2s, link::Refused{"too few of the 3 nodes answer"});
  CHECK(work<supervisor::SignalGroup>(actions)[0].signal == SIGKILL);
  Stage::append(actions, stage.end_worker(t0 + 2s, {true, SIGKILL}));
  CHECK(all<agent::StepDown>(actions).size() == 1);
  CHECK_FALSE(stage.agent.overdue_at());
  REQUIRE(stage.agent.next_deadline());
  const auto dials = all<agent::Dial>(stage.agent.advance(*stage.agent.next_deadline()));
  REQUIRE(dials.size() == 1);
  CHECK(dials[0].at == standby);
}

TEST_CASE(
    "a master suspended for too long gives up its seat, and stays leader if no node took over") {
  Stage stage{true, elastic()};
  stage.run();
  stage.heard(t0, link::Standby{first, standby.host, standby.port});
  stage.agent.handle(t0, agent::LeadsUntil{t0 + 3s});
  // Its watchdog has killed the worker meanwhile, which is no failure of the worker.
  auto actions = stage.end_worker(t0 + 9s, {true, SIGKILL});
  CHECK(said<link::Failed>(actions).empty());
  CHECK(all<agent::StepDown>(actions).empty());
  CHECK_FALSE(all<agent::HangUp>(actions).empty());
}

TEST_CASE("a node that asks a former leader goes to the leader that it names") {
  Agent agent{elastic(), facts()};
  agent.start(t0);
  agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  agent.handle(t0, agent::Heard{link::Led{standby.host, standby.port}});
  agent.handle(t0, agent::LinkDown{"closed"});
  REQUIRE(agent.next_deadline());
  CHECK(all<agent::Dial>(agent.advance(*agent.next_deadline()))[0].at == standby);
}

}  // namespace agent_standby_test
