// SPDX-License-Identifier: BSD-3-Clause
// How an agent continues at another cpprund when the leader changes, and which it does not trust.

#include <doctest/doctest.h>

#include "rendezvous/job/bounds.h"
#include "tests/launcher/agent/set_stage.h"

namespace agent_turned_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("every join states that this agent follows leaders, and the highest epoch it has seen") {
  Set stage;
  auto joined = said<link::Join>(stage.up(t0));
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].turns);
  CHECK(joined[0].epoch == 0);
  stage.heard(t0, link::Waiting{"1 of 2 nodes have joined"});
  stage.heard(t0, members(6));
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  CHECK(said<link::Join>(stage.up(t0 + 1100ms))[0].epoch == 6);
}

TEST_CASE("a node resumes its seat at the next leader, and repeats the messages of its round") {
  Set stage;
  stage.run_at_first();
  stage.worker(t0 + 1s, supervisor::Exited{LocalRank{0}, {}, WallTime{}});
  stage.worker(t0 + 1s, supervisor::GroupGone{LocalRank{0}});
  REQUIRE(said<link::Succeeded>(stage.worker(t0 + 1s, supervisor::NodeSwept{})).size() == 1);
  const auto there = stage.turn_to_second(t0 + 1s, t0 + 2s);
  REQUIRE(said<link::Join>(there).size() == 1);
  CHECK(said<link::Join>(there)[0].after == first);
  CHECK(said<link::Join>(there)[0].epoch == 6);
  CHECK(said<link::Succeeded>(there).size() == 1);
}

TEST_CASE("a change of leader is reported once, with the time without a response") {
  Set stage;
  stage.run_at_first();
  CHECK(all<events::LeaderChanged>(stage.turn_to_second(t0 + 1500ms, t0 + 2900ms)).empty());
  link::Members announced = members(7);
  announced.keeps_round = true;
  const auto turned = stage.heard(t0 + 2900ms, announced);
  REQUIRE(all<events::LeaderChanged>(turned).size() == 1);
  CHECK(all<events::LeaderChanged>(turned)[0] ==
        events::LeaderChanged{
            .from = a, .to = b, .epoch = 7, .silence = 1400ms, .keeps_workers = true});
  CHECK(work<supervisor::SignalGroup>(turned).empty());
  CHECK(all<events::LeaderChanged>(stage.heard(t0 + 3s, members(7))).empty());
}

TEST_CASE(
    "if the new leader has lost the store of the round, the workers are about to be stopped") {
  Set stage;
  stage.run_at_first();
  stage.turn_to_second(t0 + 1500ms, t0 + 2900ms);
  const auto turned = all<events::LeaderChanged>(stage.heard(t0 + 2900ms, members(7)));
  REQUIRE(turned.size() == 1);
  CHECK_FALSE(turned[0].keeps_workers);
}

TEST_CASE("nothing is reported when a link broke and the same leader answers again") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  auto back = stage.up(t0 + 1100ms);
  Stage::append(back, stage.heard(t0 + 1100ms, link::Heartbeat{.sent = 1100ms}));
  Stage::append(back, stage.heard(t0 + 1100ms, members(6)));
  CHECK(all<events::LeaderChanged>(back).empty());
  CHECK(notes(back).empty());
  CHECK(notes<LogLevel::warning>(back).empty());
  CHECK(all<agent::SpeakForWorkers>(back).size() == 1);
  // Nor when it was lost for a moment, and no other node has led meanwhile.
  CHECK(all<events::LeaderChanged>(stage.heard(t0 + 1200ms, members(7))).empty());
  // For a node without a seat the time without an answer does not count.
  Set waits;
  waits.join();
  waits.heard(t0, members(6));
  waits.down(t0 + 1s);
  waits.pass(t0 + 1050ms);
  waits.down(t0 + 1050ms, "connection refused");
  waits.pass(t0 + 1050ms);
  waits.up(t0 + 2s);
  const auto turned = all<events::LeaderChanged>(waits.heard(t0 + 2s, members(7)));
  REQUIRE(turned.size() == 1);
  CHECK(turned[0] == events::LeaderChanged{.from = a, .to = b, .epoch = 7});
}

TEST_CASE("worker messages are held until the cpprund has shown that it is the leader") {
  Set stage;
  CHECK(all<agent::SpeakForWorkers>(stage.up(t0)).empty());
  // For a new node any message from the master is enough: it has nothing to send yet.
  CHECK(all<agent::SpeakForWorkers>(stage.heard(t0, link::Waiting{"1 of 2 nodes have joined"}))
            .size() == 1);
  stage.heard(t0, members(6));
  stage.heard(t0, seat());
  stage.answered(t0 + 1s);
  const auto there = stage.turn_to_second(t0 + 1s, t0 + 2s);
  CHECK(all<agent::SpeakForWorkers>(there).empty());
  CHECK(all<agent::SpeakForWorkers>(stage.heard(t0 + 2s, members(7))).size() == 1);
  CHECK(all<agent::SpeakForWorkers>(stage.heard(t0 + 2s, link::Heartbeat{})).empty());
}

TEST_CASE("a leader of an earlier epoch is left, reported once, and renews no lease") {
  Set stage;
  stage.run_at_first(7);
  const auto fence = *stage.agent.overdue_at();
  auto there = stage.turn_to_second(t0 + 1s, t0 + 2s);
  CHECK(stage.agent.overdue_at() == fence);
  const auto stale = stage.heard(t0 + 2s, members(6));
  REQUIRE(notes<LogLevel::warning>(stale).size() == 1);
  CHECK(notes<LogLevel::warning>(stale)[0].sentence ==
        "ignoring the cpprund at 10.0.0.2:29400, which acts as leader of epoch 6: another one "
        "became leader in epoch 7");
  CHECK(all<agent::HangUp>(stale).size() == 1);
  CHECK(all<agent::SpeakForWorkers>(stale).empty());
  CHECK(stage.agent.overdue_at() == fence);
  CHECK(stage.dialled_until(t0 + 2s) == Asked{c});
  stage.up(t0 + 2s);
  CHECK(notes<LogLevel::warning>(stage.heard(t0 + 2s, members(6))).empty());
  // Whatever it answers, the workers are killed by the lease of the leader it followed.
  CHECK(kills(stage.pass(t0 + 1s + takeover_window + own_lease)));
}

TEST_CASE("a waiting node leaves a leader of an earlier epoch for the next endpoint at once") {
  Set stage;
  stage.join();
  stage.heard(t0, link::Waiting{"1 of 2 nodes have joined"});
  stage.heard(t0, members(7));
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  stage.down(t0 + 1050ms, "connection refused");
  REQUIRE(stage.dialled_until(t0 + 1050ms) == Asked{b});
  stage.up(t0 + 1100ms);
  stage.heard(t0 + 1100ms, link::Waiting{"1 of 2 nodes have joined"});
  CHECK(all<agent::HangUp>(stage.heard(t0 + 1100ms, members(6))).size() == 1);
  CHECK(stage.dialled_until(t0 + 1100ms) == Asked{c});
}

TEST_CASE("a node whose seat the next leader rejects asks that leader for a new one") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  stage.down(t0 + 1050ms, "connection refused");
  stage.pass(t0 + 1050ms);
  stage.up(t0 + 2s);
  auto refused = stage.heard(t0 + 2s, link::Refused{"round 1 does not go on here"});
  CHECK(kills(refused));
  Stage::append(refused, stage.end_worker(t0 + 2s, killed));
  const auto given = notes(refused);
  REQUIRE(given.size() == 1);
  CHECK(given[0].sentence.starts_with("the master at 10.0.0.2:29400 rejected this node: round 1"));
  CHECK(stage.dialled_until(t0 + 2100ms) == Asked{b});
  CHECK(said<link::Join>(stage.up(t0 + 2100ms))[0].after == RoundNumber{});
}

TEST_CASE("a node that lost its seat dials all endpoints, for join_timeout at most") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  auto lost = stage.refused_until(t0 + 1s + takeover_window + own_lease);
  CHECK(stage.agent.overdue_at() == std::nullopt);
  const auto rejoins = stage.end_worker(t0 + 8s, killed);
  REQUIRE(notes(rejoins).size() == 1);
  CHECK(notes(rejoins)[0].sentence.starts_with(
      "no leader among 10.0.0.1:29400, 10.0.0.2:29400, [fd00::3]:29400: "));
  const auto places = stage.refused_until(t0 + 20s);
  for (const Endpoint& each : {a, b, c}) CHECK(std::ranges::count(places, each) > 5);
  const auto last = [&] {
    Agent::Actions actions;
    for (auto due = stage.agent.next_deadline(); due; due = stage.agent.next_deadline()) {
      actions = stage.agent.advance(*due);
      if (!all<events::JobEnded>(actions).empty()) break;
      if (!all<agent::Dial>(actions).empty()) stage.down(*due, "connection refused");
    }
    return all<events::JobEnded>(actions);
  }();
  REQUIRE(last.size() == 1);
  CHECK(last[0].reason.starts_with(
      "gave up after 600 s: no leader among 10.0.0.1:29400, 10.0.0.2:29400, [fd00::3]:29400: "));
  CHECK(last[0].reason.ends_with(": connection refused"));
}

TEST_CASE("a node without a leader reports from time to time which endpoints it tries") {
  Set stage;
  Agent::Actions actions;
  stage.down(t0, "connection refused");
  for (auto due = stage.agent.next_deadline();
       due && *due < t0 + 3s && all<events::Waiting>(actions).empty();
       due = stage.agent.next_deadline()) {
    actions = stage.agent.advance(*due);
    if (!all<agent::Dial>(actions).empty()) stage.down(*due, "connection refused");
  }
  REQUIRE(all<events::Waiting>(actions).size() == 1);
  const auto reason = all<events::Waiting>(actions)[0].reason;
  CHECK(reason.starts_with("no leader among 10.0.0.1:29400, 10.0.0.2:29400, [fd00::3]:29400: "));
  CHECK(reason.find(":29400: connection refused; 598 s left") != std::string::npos);
}

TEST_CASE("a coordinator of an earlier release has no epoch, and nothing changes") {
  Set stage;
  stage.join();
  stage.heard(t0, seat());
  stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
  stage.answered(t0 + 1s);
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  const auto back = stage.up(t0 + 1100ms);
  CHECK(said<link::Join>(back)[0].after == first);
  CHECK(said<link::Join>(back)[0].epoch == 0);
  const auto heard = stage.heard(t0 + 1100ms, link::Heartbeat{.sent = 1100ms});
  CHECK(all<agent::SpeakForWorkers>(heard).size() == 1);
  CHECK(stage.agent.overdue_at() == t0 + 1100ms + own_lease + bounds::fence_margin / 2);
  // An epoch of zero does not come from a cluster either.
  stage.heard(t0 + 1100ms, members(0));
  CHECK(stage.agent.overdue_at() == t0 + 1100ms + own_lease + bounds::fence_margin / 2);
}

}  // namespace agent_turned_test
