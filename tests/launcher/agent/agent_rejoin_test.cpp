// SPDX-License-Identifier: BSD-3-Clause
// An agent that has lost its seat: it stops its workers, and asks for a seat again.

#include <doctest/doctest.h>

#include <string>

#include "launcher/workers/bounds.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_rejoin_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

Config one_or_two_nodes() {
  Config config = two_nodes();
  config.nodes_min = 1;
  return config;
}

constexpr link::ExitStatus killed{.signalled = true, .value = SIGKILL};

// The lease of three seconds has run out, and the worker is killed.
void fall_silent(Stage& stage) {
  stage.run();
  REQUIRE(work<supervisor::SignalGroup>(stage.pass(t0 + 2750ms)).size() == 1);
}

}  // namespace

TEST_CASE("an elastic node that was cut off stops its workers and rejoins as a new node") {
  Stage stage(false, one_or_two_nodes());
  fall_silent(stage);
  const auto out = stage.end_worker(t0 + 4s, killed);
  CHECK(all<events::JobEnded>(out).empty());
  REQUIRE(notes(out).size() == 1);
  CHECK(notes(out)[0].sentence ==
        "lost contact with master 10.0.0.1:29500: no message from the master (no response for 2.8 "
        "s); rejoining (timeout 600 s)");
  CHECK(all<agent::Dial>(stage.agent.advance(t0 + 5s)).size() == 1);
  const auto back = stage.agent.handle(t0 + 5s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(back).size() == 1);
  CHECK(said<link::Join>(back)[0].after == RoundNumber{});
  CHECK(said<link::Drained>(back).empty());
  CHECK(work<supervisor::Spawn>(stage.heard(t0 + 6s, seat(RoundNumber{7}))).size() == 1);
}

TEST_CASE("a rejoining node gives up after join_timeout, and reports what was missing") {
  Stage stage(false, one_or_two_nodes());
  fall_silent(stage);
  stage.end_worker(t0 + 4s, killed);
  stage.agent.advance(t0 + 5s);
  stage.agent.handle(t0 + 5s, agent::LinkDown{"connection refused"});
  CHECK(all<events::JobEnded>(stage.agent.advance(t0 + 603s)).empty());
  const auto last = all<events::JobEnded>(stage.agent.advance(t0 + 604s));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 1);
  CHECK(last[0].reason ==
        "gave up after 600 s: no response from the master at 10.0.0.1:29500: connection refused");
}

TEST_CASE(
    "a fixed-size job takes a node back if it may restart, however many restarts it has used") {
  Config config = two_nodes();
  config.restarts.max = 1;
  Stage stage(false, config);
  fall_silent(stage);
  CHECK(all<events::JobEnded>(stage.end_worker(t0 + 4s, killed)).empty());

  Stage spent(false, config);
  spent.join();
  auto last_chance = seat();
  last_chance.restart_count = 1;
  spent.heard(t0, last_chance);
  spent.worker(t0, supervisor::Started{LocalRank{0}, 100});
  spent.pass(t0 + 2750ms);
  // Rejoining uses no restart, and the other nodes wait for it.
  CHECK(all<events::JobEnded>(spent.end_worker(t0 + 4s, killed)).empty());

  Stage never(false, two_nodes());
  fall_silent(never);
  CHECK(all<events::JobEnded>(never.end_worker(t0 + 4s, killed)).size() == 1);
}

TEST_CASE("a link that comes up after the lease does not resume: the workers are stopped first") {
  Stage stage(false, one_or_two_nodes());
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  stage.pass(t0 + 2s);
  const auto late = stage.agent.handle(t0 + 2800ms, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Join>(late).empty());
  CHECK(all<agent::HangUp>(late).size() == 1);
  CHECK(work<supervisor::SignalGroup>(late).size() == 1);
}

TEST_CASE("a node that has lost its seat sends nothing, however long its workers take to exit") {
  Stage stage(false, one_or_two_nodes());
  stage.run();
  // The link works, only the answers are late: the coordinator would accept every message.
  stage.heard(t0 + 2s, link::Heartbeat{.sent = 1us});
  const auto fenced = stage.pass(t0 + 2751ms);
  CHECK(work<supervisor::SignalGroup>(fenced).size() == 1);
  CHECK(all<agent::HangUp>(fenced).size() == 1);
  // Its worker is stuck in the kernel and is given up.
  auto given_up = stage.agent.advance(t0 + 3s + bounds::kill_timeout);
  stage.examine_all(t0 + 3s + bounds::kill_timeout, given_up);
  auto swept = stage.worker(t0 + 3s + bounds::kill_timeout, supervisor::NodeSwept{});
  stage.examine_all(t0 + 3s + bounds::kill_timeout, swept);
  Stage::append(given_up, swept);
  CHECK(said<link::Heartbeat>(given_up).empty());
  CHECK(said<link::Failed>(given_up).empty());
  REQUIRE(all<events::JobEnded>(given_up).size() == 1);
  CHECK(all<events::JobEnded>(given_up)[0].reason.find("uninterruptible sleep") !=
        std::string::npos);
}

TEST_CASE("a running node whose seat is rejected stops its workers, then rejoins") {
  Stage stage(false, one_or_two_nodes());
  stage.run();
  const auto refused = stage.heard(t0 + 1s, link::Refused{"round 1 does not go on here"});
  CHECK(work<supervisor::SignalGroup>(refused).size() == 1);
  CHECK(all<events::JobEnded>(refused).empty());
  CHECK(all<events::JobEnded>(stage.end_worker(t0 + 2s, killed)).empty());
  stage.agent.advance(t0 + 3s);
  const auto back = stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Join>(back).size() == 1);
  // For a new node a rejection is final.
  CHECK(all<events::JobEnded>(stage.heard(t0 + 3s, link::Refused{"no seat"})).size() == 1);
}

TEST_CASE("a node that is asked to stop while it is cut off does not rejoin") {
  Stage stage(false, one_or_two_nodes());
  fall_silent(stage);
  stage.agent.handle(t0 + 3s, agent::Signalled{SIGTERM});
  const auto last = all<events::JobEnded>(stage.end_worker(t0 + 4s, killed));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 143);
}

TEST_CASE("a spare that lost its master waits for join_timeout only") {
  Stage stage;
  stage.join();
  stage.heard(t0, link::Waiting{.reason = "all 2 places are taken", .spare = true});
  stage.agent.handle(t0 + 24h, agent::LinkDown{"connection reset"});
  const auto last = all<events::JobEnded>(stage.agent.advance(t0 + 24h + 600s));
  REQUIRE(last.size() == 1);
  CHECK(last[0].reason ==
        "gave up after 600 s: no response from the master at 10.0.0.1:29500: connection reset");
}

TEST_CASE("a running node that receives waiting keeps its seat, however long it waits") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Waiting{.reason = "a new leader is being elected"});
  for (TimePoint now = t0; now < t0 + 700s; now += 1s) {
    stage.answered(now);
    CHECK(all<events::JobEnded>(stage.agent.advance(now)).empty());
  }
}

namespace {

// Its worker has exited with 0, the peers continue.
void succeed(Stage& stage) {
  stage.run();
  REQUIRE(said<link::Succeeded>(stage.end_worker(t0 + 1s, {})).size() == 1);
}

}  // namespace

TEST_CASE("a node that has succeeded waits for the job's result after the lease has expired") {
  Stage stage;
  succeed(stage);
  CHECK_FALSE(stage.agent.overdue_at());
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto over = stage.agent.advance(t0 + 3s);
  CHECK(all<events::JobEnded>(over).empty());
  REQUIRE(notes(over).size() == 1);
  CHECK(notes(over)[0].sentence ==
        "lost contact with master 10.0.0.1:29500: connection reset (no response for 3.0 s); every "
        "worker of this node exited with 0; querying the result of the job (timeout 600 s)");
  CHECK(notes(stage.agent.advance(t0 + 4s)).empty());
  const auto back = stage.agent.handle(t0 + 60s, agent::LinkUp{"10.0.0.2"});
  REQUIRE(said<link::Join>(back).size() == 1);
  CHECK(said<link::Join>(back)[0].after == first);
  CHECK(said<link::Join>(back)[0].idle);
  CHECK(said<link::Join>(back)[0].done);
  CHECK(said<link::Succeeded>(back).size() == 1);
  const auto last =
      all<events::JobEnded>(stage.heard(t0 + 60s, link::Finish{.reason = "every worker finished"}));
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 0);
}

TEST_CASE(
    "a node that does not learn the job's result reports that its own workers exited with 0") {
  Stage stage;
  succeed(stage);
  stage.agent.handle(t0 + 1s, agent::LinkDown{"no route to host"});
  stage.agent.advance(t0 + 3s);
  Agent::Actions out;
  std::string reason;
  SUBCASE("no master answers for join_timeout") {
    out = stage.agent.advance(t0 + 603s);
    reason = "gave up after 600 s: no response from the master at 10.0.0.1:29500: no route to host";
  }
  SUBCASE("the master does not know the round") {
    stage.agent.handle(t0 + 4s, agent::LinkUp{"10.0.0.2"});
    out = stage.heard(t0 + 4s, link::Refused{"round 1 is not known here"});
    reason = "the master at 10.0.0.1:29500 rejected this node: round 1 is not known here";
  }
  CHECK(said<link::Leave>(out).empty());
  REQUIRE(all<events::JobEnded>(out).size() == 1);
  CHECK(all<events::JobEnded>(out)[0].exit_code == 1);
  CHECK(all<events::JobEnded>(out)[0].reason ==
        "every worker of this node exited with 0, but the result of the job is unknown here: " +
            reason);
}

TEST_CASE("a node that succeeded rejoins as a new node when its round continued without it") {
  Stage stage;
  succeed(stage);
  SUBCASE("it receives waiting") {
    stage.heard(t0 + 2s, link::Waiting{"1 of 2 nodes have joined"});
    CHECK(work<supervisor::Spawn>(stage.heard(t0 + 2500ms, seat(second))).size() == 1);
  }
  SUBCASE("it receives a seat at once") {
    CHECK(work<supervisor::Spawn>(stage.heard(t0 + 2500ms, seat(second))).size() == 1);
  }
  SUBCASE("but its own round does not start twice") {
    CHECK(work<supervisor::Spawn>(stage.heard(t0 + 2500ms, seat(first))).empty());
  }
}

TEST_CASE("a node that joins a finished job without ever having had a seat exits as the job did") {
  Stage stage;
  stage.join();
  const auto over = stage.heard(t0 + 1s, link::Finish{.reason = "every worker finished"});
  REQUIRE(all<events::JobEnded>(over).size() == 1);
  CHECK(all<events::JobEnded>(over)[0].exit_code == 0);
  REQUIRE(notes(over).size() == 1);
  CHECK(notes(over)[0].sentence == "the job ended without this node: every worker finished");
}

TEST_CASE("an agent that was asked to stop does not report later failures as causes") {
  Stage stage;
  stage.run();
  const auto stopping = stage.agent.handle(t0 + 1s, agent::Signalled{SIGTERM});
  REQUIRE(said<link::Leave>(stopping).size() == 1);
  CHECK(said<link::Leave>(stopping)[0].asked == 1s);
  const auto ended = stage.end_worker(t0 + 1s + 128us, {.signalled = true, .value = SIGSEGV});
  CHECK(said<link::Failed>(ended).empty());
  CHECK(said<link::Drained>(ended).size() == 1);
}

TEST_CASE("an agent suspended past its timeout reads pending messages before it gives up, once") {
  Stage stage(true);
  stage.join();
  const auto woken_at = t0 + two_nodes().join_timeout + 60s;
  CHECK(all<events::JobEnded>(stage.agent.advance(woken_at)).empty());
  SUBCASE("a pending message counts") {
    CHECK(work<supervisor::Spawn>(stage.heard(woken_at, seat())).size() == 1);
  }
  SUBCASE("no message is pending") {
    CHECK(all<events::JobEnded>(stage.agent.advance(woken_at + 1s)).size() == 1);
  }
}

}  // namespace agent_rejoin_test
