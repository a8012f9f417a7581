// SPDX-License-Identifier: BSD-3-Clause
// What an agent does when the coordinator passes on what an operator asks.

#include <doctest/doctest.h>

#include <csignal>

#include "launcher/agent/agent.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_orders_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::Save save_at(link::AgentTime at, RoundNumber round = first) {
  return {.round = round, .signal = SIGUSR1, .at = at};
}

}  // namespace

TEST_CASE("the workers are sent the signal at the moment that all were told, and once") {
  Stage stage;
  stage.run();
  CHECK(work<supervisor::SignalWorker>(stage.heard(t0 + 100ms, save_at(900ms))).empty());
  CHECK(stage.agent.next_deadline() <= t0 + 900ms);
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 899ms)).empty());
  const auto sent = work<supervisor::SignalWorker>(stage.agent.advance(t0 + 900ms));
  REQUIRE(sent.size() == 1);
  CHECK(sent[0] == supervisor::SignalWorker{LocalRank{0}, SIGUSR1});
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 901ms)).empty());
}

TEST_CASE("who hears of the moment late does it at once, and none waits for a year") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 2s, save_at(900ms));
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 2s)).size() == 1);
  stage.answered(t0 + 2s);
  stage.heard(t0 + 2s, save_at(24h * 365));
  for (int s = 3; s <= 61; ++s) {
    stage.answered(t0 + s * 1s);
    CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + s * 1s)).empty());
  }
  stage.answered(t0 + 62s);
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 62s)).size() == 1);
}

TEST_CASE("another round is not asked to save, nor one that is being ended") {
  Stage stage;
  stage.run();
  stage.heard(t0, save_at(0s, second));
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 1s)).empty());
  stage.heard(t0, save_at(2s));
  stage.heard(t0 + 1s, link::Drain{first, "a test"});
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 2s)).empty());
}

TEST_CASE("a save does not outlive its round") {
  Stage stage;
  stage.run();
  stage.heard(t0, save_at(900ms));
  stage.heard(t0 + 100ms, link::Drain{first, "a test"});
  stage.end_worker(t0 + 200ms, {.signalled = true, .value = SIGTERM});
  stage.heard(t0 + 300ms, seat(second));
  stage.worker(t0 + 300ms, supervisor::Started{LocalRank{0}, 101});
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 900ms)).empty());
}

TEST_CASE("a notice goes to the workers that take it, and ends nothing") {
  Config config = two_nodes();
  config.notices = {SIGUSR1};
  Stage stage{false, config};
  CHECK(stage.agent.handle(t0, agent::Signalled{SIGUSR1}).empty());  // nobody is here yet
  stage.run();
  const auto told = stage.agent.handle(t0, agent::Signalled{SIGUSR1});
  CHECK(work<supervisor::SignalGroup>(told).empty());
  REQUIRE(work<supervisor::SignalWorker>(told).size() == 1);
  CHECK(work<supervisor::SignalWorker>(told)[0] == supervisor::SignalWorker{LocalRank{0}, SIGUSR1});
  CHECK(said<link::Leave>(told).empty());
}

TEST_CASE("a preemption notice reaches the coordinator once, and over a broken link later") {
  Stage stage;
  const auto early = stage.agent.handle(t0, agent::Noticed{"file /run/preempt"});
  CHECK(all<agent::TellNote>(early)[0].sentence ==
        "note: preemption notice (file /run/preempt), with no worker that could save");
  stage.run();
  const auto told = stage.agent.handle(t0, agent::Noticed{"file /run/preempt"});
  REQUIRE(said<link::Heartbeat>(told).size() == 1);
  CHECK(said<link::Heartbeat>(told)[0].notice == "file /run/preempt");
  CHECK(all<agent::TellNote>(told)[0].sentence ==
        "note: preemption notice (file /run/preempt); asking all ranks to save");
  const auto next = said<link::Heartbeat>(stage.agent.advance(t0 + 1s));
  REQUIRE(next.size() == 1);
  CHECK(next[0].notice.empty());
}

TEST_CASE("who ends a job by a signal is in its reason") {
  Stage stage;
  stage.run();
  const auto leaving =
      stage.agent.handle(t0, agent::Signalled{SIGTERM, "Slurm ended the job (time limit)"});
  REQUIRE(said<link::Leave>(leaving).size() == 1);
  CHECK(said<link::Leave>(leaving)[0].reason ==
        "asked to stop by SIGTERM: Slurm ended the job (time limit)");
}

TEST_CASE("who is sent away says who asked for it, and ends with 0") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 1s, link::Drain{first, "uid 0 (root) drained node 1 on beta"});
  stage.end_worker(t0 + 2s, {.signalled = true, .value = SIGTERM});
  const auto last = stage.heard(t0 + 2s, link::Dismissed{"uid 0 (root) drained node 1 on beta"});
  REQUIRE(all<agent::Exit>(last).size() == 1);
  CHECK(all<agent::Exit>(last)[0].code == 0);
  CHECK(all<agent::TellNote>(last)[0].sentence ==
        "this node leaves the job: uid 0 (root) drained node 1 on beta");
}

TEST_CASE("who waits for a seat can be sent away, who has workers cannot") {
  Stage waiting;
  waiting.join();
  CHECK(all<agent::Exit>(waiting.heard(t0, link::Dismissed{"a test"}))[0].code == 0);
  Stage running;
  running.run();
  CHECK(running.heard(t0, link::Dismissed{"a test"}).empty());
}

TEST_CASE("a node that has done its work and is asked to stop has drained: nobody waits for it") {
  Stage stage;
  stage.run();
  stage.end_worker(t0, {});
  const auto leaving = stage.agent.handle(t0 + 1s, agent::Signalled{SIGTERM});
  CHECK(said<link::Leave>(leaving).size() == 1);
  CHECK(said<link::Drained>(leaving) == std::vector{link::Drained{first}});
  CHECK(all<agent::Exit>(leaving).size() == 1);
}

}  // namespace agent_orders_test
