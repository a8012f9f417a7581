// SPDX-License-Identifier: BSD-3-Clause
// An agent whose coordinator is lost, and who goes on with the job then.

#include <doctest/doctest.h>

#include <csignal>
#include <memory>

#include "proto/bounds.h"
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

// Running, with a standby that is somebody else, or itself.
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
  // Nobody answers any more, and its worker is gone.
  Agent::Actions lose_master() {
    agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
    auto actions = pass(t0 + 2750ms);
    append(actions, end_worker(t0 + 2800ms, {true, SIGKILL}));
    agent.handle(t0 + 2800ms, agent::LinkDown{"no answer"});
    return actions;
  }
  // All that it dials until then.
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

TEST_CASE("a join says that this node can lead, where that can help") {
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
    "who lost its master asks it until its vote may be given, and then the standby in turns with "
    "it") {
  Elastic stage;
  stage.lose_master();
  const auto before = stage.dialled(t0 + timeout - 1ms);
  CHECK_FALSE(before.empty());
  for (const Endpoint& each : before) CHECK(each == master);
  const auto later = stage.dialled(t0 + timeout + 3s);
  REQUIRE(later.size() > 3);
  for (std::size_t i = 0; i < later.size(); ++i) CHECK(later[i] == (i % 2 == 0 ? standby : master));
}

TEST_CASE("a vote that was given binds until the standby says that it does not lead") {
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
  // It is up again, and says so.
  stage.agent.advance(t0 + 31s);
  stage.agent.handle(t0 + 31s, agent::LinkUp{"10.0.0.2"});
  stage.heard(t0 + 31s, link::NotLeading{"the coordinator responds again"});
  stage.agent.handle(t0 + 31s, agent::LinkDown{"closed"});
  const auto free = stage.dialled(t0 + 40s);
  CHECK(std::ranges::count(free, master) > 0);
}

TEST_CASE("a master that is back is followed without a vote, and nobody else is any more") {
  Elastic stage;
  stage.lose_master();
  stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
  stage.agent.handle(t0 + 3100ms, agent::LinkDown{"connection reset"});
  for (const Endpoint& each : stage.dialled(t0 + 20s)) CHECK(each == master);
}

TEST_CASE("who has seen the round end in order, or done its part, has no vote") {
  for (const bool drained : {true, false}) {
    CAPTURE(drained);
    Elastic stage;
    Agent::Actions told;
    if (drained) stage.heard(t0 + 1s, link::Drain{first, "rank 0 failed"});
    told =
        stage.end_worker(t0 + 1s, drained ? link::ExitStatus{true, SIGTERM} : link::ExitStatus{});
    if (drained) {
      REQUIRE(said<link::Drained>(told).size() == 1);
      CHECK(said<link::Drained>(told)[0].asked);
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
    // It asks the standby, for a seat or for how the job ends.
    REQUIRE(join);
    CHECK(join->vote == RoundNumber{});
    CHECK(join->done == !drained);
  }
}

TEST_CASE("a node whose round drains votes until it is asked to give its vote up") {
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

TEST_CASE("a node that loses its master while the job is being ended does not wait for another") {
  Elastic stage;
  stage.heard(t0,
              link::Drain{.round = first, .reason = "an operator stopped it", .ends_job = true});
  stage.end_worker(t0, {true, SIGTERM});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto last = all<agent::Exit>(stage.pass(t0 + 2750ms));
  REQUIRE(last.size() == 1);
  CHECK(last[0].code == 1);
  CHECK(last[0].reason.ends_with("; the job was being stopped"));
}

TEST_CASE("where the job is being ended, no standby can lead, and the workers have time to save") {
  Elastic stage;
  stage.heard(t0,
              link::Drain{.round = first, .reason = "an operator stopped it", .ends_job = true});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  stage.agent.handle(t0 + 2s, agent::LinkDown{.reason = "refused", .refused = true});
  CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + 2750ms)).empty());
  CHECK(all<agent::Exit>(stage.end_worker(t0 + 4s, {})).size() == 1);
}

TEST_CASE("a master that is asked to end, and may not decide, waits until somebody leads") {
  const auto begin = [] {
    auto stage = std::make_unique<Stage>(true, elastic());
    stage->run();
    stage->heard(t0, link::Standby{first, standby.host, standby.port});
    stage->agent.handle(t0, agent::LeadsUntil{t0 + 3s});
    stage->agent.handle(t0 + 1s, agent::Signalled{.signal = SIGTERM});
    stage->heard(t0 + 2s, link::Refused{"too few of the 3 nodes answer"});
    return stage;
  };
  SUBCASE("it leads again, and transfers leadership") {
    const auto stage = begin();
    stage->agent.handle(t0 + 2s, agent::Leads{.again = true});
    auto actions = stage->end_worker(t0 + 2s, {true, SIGKILL});
    CHECK(all<agent::Exit>(actions).empty());
    actions = stage->agent.advance(*stage->agent.next_deadline());
    CHECK(all<agent::Dial>(actions).size() == 1);
    stage->agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
    const auto last =
        all<agent::Exit>(stage->heard(t0 + 3s, link::Led{standby.host, standby.port}));
    REQUIRE(last.size() == 1);
    CHECK(last[0].code == 128 + SIGTERM);
  }
  SUBCASE("it does not for two leases: others lead, or nobody can") {
    const auto stage = begin();
    CHECK(all<agent::Exit>(stage->end_worker(t0 + 2s, {true, SIGKILL})).empty());
    // Nor does it ask another one for a seat.
    std::vector<agent::Exit> last;
    for (auto due = stage->agent.next_deadline(); due && last.empty();
         due = stage->agent.next_deadline()) {
      REQUIRE(*due < t0 + 12s);
      const auto actions = stage->agent.advance(*due);
      last = all<agent::Exit>(actions);
      CHECK(all<agent::Dial>(actions).empty());
    }
    REQUIRE(last.size() == 1);
    CHECK(last[0].code == 128 + SIGTERM);
  }
  SUBCASE("it is asked again") {
    const auto stage = begin();
    stage->end_worker(t0 + 2s, {true, SIGKILL});
    CHECK(all<agent::Exit>(stage->agent.handle(t0 + 3s, agent::Signalled{.signal = SIGTERM}))
              .size() == 1);
  }
}

TEST_CASE(
    "the standby takes the record in parts, says where it stands, and says often that it is here") {
  Elastic stage{true};
  REQUIRE(all<agent::StandBy>(stage.kept).size() == 1);
  CHECK(all<agent::StandBy>(stage.kept)[0].record == "abcd");
  CHECK(said<link::Stands>(stage.stands).size() == 1);
  stage.answered(t0 + 1s);  // the heartbeat of before is sent
  stage.agent.advance(t0 + 1s);
  CHECK(*stage.agent.next_deadline() < t0 + 1500ms);
  // What belongs to another link is no part of it.
  Elastic other;
  other.heard(t0, link::Record{first, 0, 3, "ab"});
  CHECK(all<agent::StandBy>(other.heard(t0, link::Record{first, 2, 3, "ef"})).empty());
}

TEST_CASE("the standby votes for itself, leads when it is told so, and is a host from then on") {
  Elastic stage{true};
  auto actions = stage.lose_master();
  CHECK(all<agent::Stand>(actions).empty());
  Stage::append(actions, stage.pass(t0 + timeout));
  REQUIRE(all<agent::Stand>(actions).size() == 1);
  CHECK(all<agent::Stand>(actions)[0].own.vote == first);
  for (const auto& dial : all<agent::Dial>(actions)) CHECK(dial.at == master);
  const auto leads = stage.agent.handle(t0 + 4s, agent::Leads{});
  REQUIRE(all<agent::TellTurned>(leads).size() == 1);
  CHECK(all<agent::TellTurned>(leads)[0] ==
        agent::TellTurned{.from = master, .to = standby, .silence = 4s});
  REQUIRE(all<agent::Dial>(leads).size() == 1);
  CHECK(all<agent::Dial>(leads)[0].at == standby);
  stage.agent.handle(t0 + 4s, agent::LinkUp{"10.0.0.2"});
  const auto round = stage.heard(t0 + 4s, seat(second));
  const auto spawned = work<supervisor::Spawn>(round);
  REQUIRE(spawned.size() == 1);
  CHECK(spawned[0].spec.variables.at("MASTER_ADDR") == standby.host);
  // It looks for a master that may have come anew.
  const auto looks = all<agent::AskWhoHosts>(stage.agent.advance(t0 + 5s));
  REQUIRE(looks.size() == 1);
  CHECK(looks[0].addresses == std::vector<std::string>{master.host});
  CHECK(looks[0].port == master.port);
  CHECK(looks[0].question.leads_port == standby.port);
}

TEST_CASE("a node that replaces the standby is the standby when it is told so, and no other is") {
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
  SUBCASE("not yet") {}
  SUBCASE("told") {
    stage.heard(t0, own);
    stands = true;
  }
  SUBCASE("and replaced itself") {
    stage.heard(t0, own);
    stage.heard(t0, after);
  }
  auto actions = stage.lose_master();
  Stage::append(actions, stage.pass(t0 + timeout));
  CHECK(all<agent::Stand>(actions).size() == (stands ? 1 : 0));
}

TEST_CASE("the standby's vote for itself is taken back when the master is there") {
  Elastic stage{true};
  stage.lose_master();
  stage.pass(t0 + timeout);
  const auto back = stage.agent.handle(t0 + 4s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(all<agent::Stand>(back).size() == 1);
  CHECK(all<agent::Stand>(back)[0].own.vote == RoundNumber{});
  REQUIRE(said<link::Join>(back).size() == 1);
  // Before that coordinator hears of this node.
  CHECK(std::holds_alternative<agent::Stand>(back[0]));
}

TEST_CASE("a master that leads no more ends its workers at once, and asks the standby for a seat") {
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
    "a master that slept for too long gives its seat up, and keeps the lead if nobody took it") {
  Stage stage{true, elastic()};
  stage.run();
  stage.heard(t0, link::Standby{first, standby.host, standby.port});
  stage.agent.handle(t0, agent::LeadsUntil{t0 + 3s});
  // Its watchdog has killed the worker meanwhile: that is no failure of it.
  auto actions = stage.end_worker(t0 + 9s, {true, SIGKILL});
  CHECK(said<link::Failed>(actions).empty());
  CHECK(all<agent::StepDown>(actions).empty());
  CHECK_FALSE(all<agent::HangUp>(actions).empty());
}

TEST_CASE("a node that asks where nobody leads any more goes where it is sent") {
  Agent agent{elastic(), facts()};
  agent.start(t0);
  agent.handle(t0, agent::LinkUp{"10.0.0.2"});
  agent.handle(t0, agent::Heard{link::Led{standby.host, standby.port}});
  agent.handle(t0, agent::LinkDown{"closed"});
  REQUIRE(agent.next_deadline());
  CHECK(all<agent::Dial>(agent.advance(*agent.next_deadline()))[0].at == standby);
}

}  // namespace agent_standby_test
