// SPDX-License-Identifier: BSD-3-Clause
// Which of several cpprunds an agent dials to find the leader, and when.

#include <doctest/doctest.h>

#include "launcher/agent/bounds.h"
#include "tests/launcher/agent/set_stage.h"

namespace agent_turns_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("a new node dials the endpoints in turns, and gives up attempts without an answer") {
  Agent agent{at_a_set(), facts()};
  const auto begun = all<agent::Dial>(agent.start(t0));
  REQUIRE(begun.size() == 1);
  CHECK(begun[0] == agent::Dial{a, bounds::turn_step});
  CHECK(all<agent::Dial>(agent.advance(t0 + attempt - 1ms)).empty());
  CHECK(all<agent::Dial>(agent.advance(t0 + attempt))[0].at == b);
  CHECK(all<agent::Dial>(agent.advance(t0 + 2 * attempt))[0].at == c);
  // An endpoint that is far away has more time in the next turn.
  const auto again = all<agent::Dial>(agent.advance(t0 + 3 * attempt));
  REQUIRE(again.size() == 1);
  CHECK(again[0] == agent::Dial{a, 2 * bounds::turn_step});
  CHECK(all<agent::Dial>(agent.advance(t0 + 4 * attempt)).empty());
  CHECK(all<agent::Dial>(agent.advance(t0 + 5 * attempt)).size() == 1);
}

TEST_CASE("without a seat to lose, pauses between turns grow as with one master") {
  Set stage;
  stage.down(t0, "connection refused");
  CHECK(stage.refused_until(t0) == Asked{b, c});
  CHECK(stage.agent.next_deadline() == t0 + 50ms);
  CHECK(stage.refused_until(t0 + 50ms) == Asked{a, b, c});
  CHECK(stage.agent.next_deadline() == t0 + 150ms);
  stage.refused_until(t0 + 5s);
  const auto later = stage.refused_until(t0 + 15s);
  CHECK(later.size() >= 3 * 9);
  CHECK(later.size() <= 3 * 11);
}

TEST_CASE("after a broken link the same endpoint is dialled once more, then the others at once") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  CHECK(stage.agent.next_deadline() == t0 + 1050ms);
  CHECK(stage.refused_until(t0 + 1050ms) == Asked{a, b, c});
  // A seat may be lost: no pause between turns is longer than this.
  for (TimePoint now = t0 + 1050ms; now < t0 + 3s;) {
    REQUIRE(stage.agent.next_deadline());
    CHECK(*stage.agent.next_deadline() <= now + bounds::turn_pause_max);
    now = *stage.agent.next_deadline();
    CHECK(stage.refused_until(now) == Asked{a, b, c});
  }
}

TEST_CASE("an attempt without an answer is given up in a fraction of a second, repeatedly") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  const auto places = stage.dialled_until(t0 + 1050ms + 5 * attempt);
  CHECK(places == Asked{a, b, c, a, b, c});
  CHECK(attempt < 1s);
}

TEST_CASE(
    "an endpoint that is silent for half a lease is left, and dialled again after the others") {
  Set stage;
  stage.run_at_first();
  CHECK(all<agent::HangUp>(stage.pass(t0 + 2500ms - 1ms)).empty());
  const auto silent = stage.pass(t0 + 2500ms);
  REQUIRE(all<agent::HangUp>(silent).size() == 1);
  CHECK(all<agent::HangUp>(silent)[0] ==
        agent::HangUp{.reason = "no message from the master for 1.5 s", .breaks = true});
  REQUIRE(all<agent::Dial>(silent).size() == 1);
  CHECK(all<agent::Dial>(silent)[0].at == b);
  stage.down(t0 + 2500ms, "connection refused");
  CHECK(stage.refused_until(t0 + 2500ms) == Asked{c});
  CHECK(stage.refused_until(t0 + 2550ms) == Asked{a, b, c});
  // Another endpoint accepts, and sends nothing either.
  Set paused;
  paused.run_at_first();
  paused.pass(t0 + 2500ms);
  paused.up(t0 + 2600ms);
  CHECK(paused.dialled_until(t0 + 4100ms) == Asked{c});
}

TEST_CASE("half a lease is no silence when heartbeats are as rare as leases allow") {
  Config config = at_a_set();
  config.keep_alive_interval = 5s;
  config.keep_alive_attempts_max = 2;
  Set stage{config};
  stage.run_at_first();
  TimePoint now = t0 + 1s;
  for (int i = 0; i < 10; ++i) {
    const auto due = stage.agent.next_deadline();
    REQUIRE(due);
    CHECK(all<agent::HangUp>(stage.agent.advance(*due)).empty());
    now = *due;
    stage.answered(now);
  }
  CHECK(now > t0 + 20s);
}

TEST_CASE("the endpoint that a standby names is dialled next, at once") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  stage.down(t0 + 1050ms, "connection refused");
  stage.pass(t0 + 1050ms);
  stage.up(t0 + 1060ms);
  const auto sent_on =
      stage.heard(t0 + 1070ms, link::NotLeading{"it is a standby", "10.0.0.9", 1234});
  CHECK(all<agent::HangUp>(sent_on).size() == 1);
  CHECK(stage.refused_until(t0 + 1070ms) == Asked{{"10.0.0.9", 1234}, c});
}

TEST_CASE("a leader that transfers the job is left for the endpoint it names, without a pause") {
  Set stage;
  stage.run_at_first();
  const auto handed = stage.heard(t0 + 1s, link::NotLeading{"handed over", b.host, b.port});
  CHECK(all<agent::HangUp>(handed).size() == 1);
  CHECK(all<agent::Dial>(stage.pass(t0 + 1s)).size() == 1);
  auto there = stage.up(t0 + 1s);
  Stage::append(there, stage.heard(t0 + 1001ms, link::Heartbeat{.sent = 1s}));
  Stage::append(there, stage.heard(t0 + 1001ms, members(7)));
  REQUIRE(all<events::LeaderChanged>(there).size() == 1);
  CHECK(all<events::LeaderChanged>(there)[0].silence == 1ms);
  // And back again, though that endpoint was dialled a moment ago.
  stage.heard(t0 + 1002ms, link::NotLeading{"handed over", a.host, a.port});
  CHECK(stage.dialled_until(t0 + 1002ms) == Asked{a});
}

TEST_CASE(
    "after a standby without a leader the next endpoint is dialled, and no lease is renewed") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  stage.pass(t0 + 1050ms);
  const auto fence = *stage.agent.overdue_at();
  stage.up(t0 + 2s);
  const auto answered = stage.heard(t0 + 2s, link::NotLeading{"it is a standby"});
  CHECK(all<agent::SpeakForWorkers>(answered).empty());
  CHECK(stage.dialled_until(t0 + 2s) == Asked{b});
  CHECK(stage.agent.overdue_at() == fence);
}

TEST_CASE(
    "two endpoints that name each other are dialled once in a turn, with pauses between turns") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  int asked = 0;
  for (auto due = stage.agent.next_deadline(); due && *due < t0 + 2s;
       due = stage.agent.next_deadline()) {
    for (const auto& dial : all<agent::Dial>(stage.agent.advance(*due))) {
      ++asked;
      stage.up(*due);
      const Endpoint& other = dial.at == a ? b : a;
      stage.heard(*due, link::NotLeading{"it is a standby", other.host, other.port});
    }
  }
  CHECK(asked >= 3 * 9);
  CHECK(asked <= 3 * 21);
}

TEST_CASE("a single endpoint that lists the others becomes one of several") {
  Set stage{at_one()};
  stage.run_at_first();
  stage.down(t0 + 1s);
  CHECK(stage.refused_until(t0 + 1050ms) == Asked{a, b, c});
}

TEST_CASE("a node that was given only a standby's endpoint finds the leader") {
  Set stage{at_one()};
  stage.join();
  stage.heard(t0, link::NotLeading{"it is a standby", b.host, b.port});
  REQUIRE(stage.dialled_until(t0) == Asked{b});
  CHECK(said<link::Join>(stage.up(t0)).size() == 1);
  const auto started = stage.heard(t0, seat());
  REQUIRE(work<supervisor::Spawn>(started).size() == 1);
  CHECK(work<supervisor::Spawn>(started)[0].spec.variables.at("CPPRUN_MASTER_ADDR") == b.host);
  // That endpoint was dialled: it is not dialled again before a pause.
  Set sent_on{at_one()};
  sent_on.join();
  sent_on.heard(t0, link::NotLeading{"it is a standby", b.host, b.port});
  CHECK(sent_on.refused_until(t0) == Asked{b});
  CHECK(sent_on.refused_until(t0 + 50ms) == Asked{b, a});
  // A standby that names no leader is not dialled twenty times a second.
  Set alone{at_one()};
  alone.join();
  int asked = 0;
  for (auto due = alone.agent.next_deadline(); due && *due < t0 + 10s;
       due = alone.agent.next_deadline()) {
    if (all<agent::Dial>(alone.agent.advance(*due)).empty()) continue;
    ++asked;
    alone.up(*due);
    alone.heard(*due, link::NotLeading{"it is a standby"});
  }
  CHECK(asked < 20);
}

}  // namespace agent_turns_test
