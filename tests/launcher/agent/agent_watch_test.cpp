// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "tests/launcher/agent/agent_stage.h"

namespace agent_watch_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::Heartbeat watched(Duration length) {
  return {.sent = link::AgentTime{1}, .watch = length};
}

Config hangs_after(Duration silence) {
  Config config = two_nodes();
  config.beat_timeout = HeartbeatTimeout{.fixed = silence};
  return config;
}

supervisor::HeartbeatsSeen one_heartbeat_at(TimePoint last,
                                            std::optional<Duration> since_checkpoint = {}) {
  return {.readings = {{.local_rank = LocalRank{0},
                        .beats = 1,
                        .last = last,
                        .step = 700,
                        .checkpoint_step = 600,
                        .since_checkpoint = since_checkpoint}}};
}

}  // namespace

TEST_CASE("no status is sent while no client watches, whatever happens to the workers") {
  Stage stage;
  stage.run();
  for (int second = 1; second < 10; ++second) {
    auto actions = stage.agent.advance(t0 + second * 1s);
    stage.answered(t0 + second * 1s);
    CHECK(all<agent::SampleWorkers>(actions).empty());
    CHECK(said<link::Status>(actions).empty());
  }
  const auto ended = stage.end_worker(t0 + 10s, {.value = 3});
  CHECK(all<agent::SampleWorkers>(ended).empty());
  CHECK(said<link::Status>(ended).empty());
}

TEST_CASE("a status request samples the workers once, and sends the result") {
  Stage stage;
  stage.run();
  const auto asked = stage.heard(t0 + 1s, watched(10s));
  REQUIRE(all<agent::SampleWorkers>(asked).size() == 1);
  CHECK(all<agent::SampleWorkers>(asked)[0].workers ==
        std::vector{WorkerView{LocalRank{0}, 100, WorkerState::running, t0}});
  const auto reply = stage.agent.handle(
      t0 + 1s, agent::WorkersSeen{{{.local_rank = LocalRank{0}, .resident_kib = 4096}}});
  REQUIRE(said<link::Status>(reply).size() == 1);
  const auto status = said<link::Status>(reply)[0];
  CHECK(status.round == first);
  REQUIRE(status.workers.size() == 1);
  CHECK(status.workers[0].pid == 100);
  CHECK(status.workers[0].resident_kib == 4096);
}

TEST_CASE("a change is sent at once while a client watches, and not afterwards") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 1s, watched(1s));
  stage.agent.handle(t0 + 1s, agent::WorkersSeen{});
  SUBCASE("within the watch interval") {
    const auto ended =
        stage.worker(t0 + 1500ms, supervisor::Exited{LocalRank{0}, {.value = 3}, {}});
    REQUIRE(all<agent::SampleWorkers>(ended).size() == 1);
    const auto reply = stage.agent.handle(t0 + 1500ms, agent::WorkersSeen{});
    REQUIRE(said<link::Status>(reply).size() == 1);
    CHECK(said<link::Status>(reply)[0].workers[0].state == WorkerState::failed);
  }
  SUBCASE("after the watch interval") {
    const auto ended =
        stage.worker(t0 + 2500ms, supervisor::Exited{LocalRank{0}, {.value = 3}, {}});
    CHECK(all<agent::SampleWorkers>(ended).empty());
  }
}

TEST_CASE("a status is not repeated when a link resumes") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 1s, watched(10s));
  stage.agent.handle(t0 + 1s, agent::WorkersSeen{});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"reset", {}, false});
  const auto back = stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2", {}});
  CHECK(said<link::Join>(back).size() == 1);
  CHECK(said<link::Status>(back).empty());
}

TEST_CASE("a worker whose heartbeats stop breaks the round as hung, and is then stopped") {
  Stage stage(false, hangs_after(2s));
  stage.run();
  REQUIRE(work<supervisor::ReadHeartbeats>(stage.agent.advance(t0 + 2s)).size() == 1);
  CHECK(said<link::Failed>(stage.worker(t0 + 2s, one_heartbeat_at(t0 + 1s))).empty());
  stage.answered(t0 + 2s);
  REQUIRE(work<supervisor::ReadHeartbeats>(stage.agent.advance(t0 + 3s)).size() == 1);
  CHECK(said<link::Failed>(stage.worker(t0 + 3s, one_heartbeat_at(t0 + 1s))).empty());
  stage.answered(t0 + 3s);
  REQUIRE(work<supervisor::ReadHeartbeats>(stage.agent.advance(t0 + 3200ms)).size() == 1);
  auto hung = stage.worker(t0 + 3200ms, one_heartbeat_at(t0 + 1s));
  CHECK(work<supervisor::SignalMain>(hung) ==
        std::vector{supervisor::SignalMain{LocalRank{0}, SIGTERM}});
  stage.examine_all(t0 + 3200ms, hung);
  REQUIRE(said<link::Failed>(hung).size() == 1);
  const auto failed = said<link::Failed>(hung)[0];
  CHECK(failed.failure.cause == "hung");
  CHECK_FALSE(failed.failure.consequence);
  CHECK(failed.failure.rank == Rank{1});
  CHECK(failed.failure.pid == 100);
  CHECK(failed.failure.status == link::ExitStatus{true, SIGTERM});
  CHECK(failed.failure.message == "hung: no heartbeat for 2.2 s; terminated by cpprun");
  CHECK(failed.noticed == 3200ms);
  // Its exit is not reported again.
  const auto ended = stage.end_worker(t0 + 4s, {true, SIGTERM});
  CHECK(said<link::Failed>(ended).empty());
  CHECK(said<link::Drained>(ended).size() == 1);
}

TEST_CASE("a node that drains reports its last step, and for how long nothing was saved") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 2s, link::Drain{first, "rank 0 on alpha failed"});
  stage.worker(t0 + 2s, one_heartbeat_at(t0 + 1s, 65s));
  const auto ended = stage.end_worker(t0 + 2500ms, {true, SIGTERM});
  REQUIRE(said<link::Drained>(ended).size() == 1);
  CHECK(said<link::Drained>(ended)[0].unsaved == 65s);
  CHECK(said<link::Drained>(ended)[0].reached == link::Reached{700, 600});
}

}  // namespace agent_watch_test
