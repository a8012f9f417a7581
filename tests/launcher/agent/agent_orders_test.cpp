// SPDX-License-Identifier: BSD-3-Clause
// What an agent does when the coordinator forwards an operator's command.

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

TEST_CASE("a save signals the workers once, at the moment set for all nodes") {
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

TEST_CASE("a late save is delivered at once, and a distant one after a minute") {
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

TEST_CASE("a save of another round, or of a draining one, is ignored") {
  Stage stage;
  stage.run();
  stage.heard(t0, save_at(0s, second));
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 1s)).empty());
  stage.heard(t0, save_at(2s));
  stage.heard(t0 + 1s, link::Drain{first, "a test"});
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 2s)).empty());
}

TEST_CASE("a pending save ends with its round") {
  Stage stage;
  stage.run();
  stage.heard(t0, save_at(900ms));
  stage.heard(t0 + 100ms, link::Drain{first, "a test"});
  stage.end_worker(t0 + 200ms, {.signalled = true, .value = SIGTERM});
  stage.heard(t0 + 300ms, seat(second));
  stage.worker(t0 + 300ms, supervisor::Started{LocalRank{0}, 101});
  CHECK(work<supervisor::SignalWorker>(stage.agent.advance(t0 + 900ms)).empty());
}

TEST_CASE("a notice goes to workers that handle the signal, and stops nothing") {
  Config config = two_nodes();
  config.notices = {SIGUSR1};
  Stage stage{false, config};
  CHECK(stage.agent.handle(t0, agent::Signalled{SIGUSR1}).empty());  // no worker runs yet
  stage.run();
  const auto actions = stage.agent.handle(t0, agent::Signalled{SIGUSR1});
  CHECK(work<supervisor::SignalGroup>(actions).empty());
  REQUIRE(work<supervisor::SignalWorker>(actions).size() == 1);
  CHECK(work<supervisor::SignalWorker>(actions)[0] ==
        supervisor::SignalWorker{LocalRank{0}, SIGUSR1});
  CHECK(said<link::Leave>(actions).empty());
}

TEST_CASE("a preemption notice reaches the coordinator once, or later if the link is down") {
  Stage stage;
  const auto early = stage.agent.handle(t0, agent::Noticed{"file /run/preempt"});
  CHECK(notes(early)[0].sentence ==
        "note: preemption notice (file /run/preempt), with no worker that could save");
  stage.run();
  const auto actions = stage.agent.handle(t0, agent::Noticed{"file /run/preempt"});
  REQUIRE(said<link::Heartbeat>(actions).size() == 1);
  CHECK(said<link::Heartbeat>(actions)[0].notice == "file /run/preempt");
  CHECK(notes(actions)[0].sentence ==
        "note: preemption notice (file /run/preempt); asking all ranks to save");
  const auto next = said<link::Heartbeat>(stage.agent.advance(t0 + 1s));
  REQUIRE(next.size() == 1);
  CHECK(next[0].notice.empty());
}

TEST_CASE("the reason names the sender of the signal that ended the job") {
  Stage stage;
  stage.run();
  const auto leaving =
      stage.agent.handle(t0, agent::Signalled{SIGTERM, "Slurm ended the job (time limit)"});
  REQUIRE(said<link::Leave>(leaving).size() == 1);
  CHECK(said<link::Leave>(leaving)[0].reason ==
        "asked to stop by SIGTERM: Slurm ended the job (time limit)");
}

TEST_CASE("a dismissal of a drained node is reported with its author, and the exit code is 0") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 1s, link::Drain{first, "uid 0 (root) drained node 1 on beta"});
  stage.end_worker(t0 + 2s, {.signalled = true, .value = SIGTERM});
  const auto last = stage.heard(t0 + 2s, link::Dismissed{"uid 0 (root) drained node 1 on beta"});
  REQUIRE(all<events::JobEnded>(last).size() == 1);
  CHECK(all<events::JobEnded>(last)[0].exit_code == 0);
  CHECK(notes(last)[0].sentence == "this node leaves the job: uid 0 (root) drained node 1 on beta");
}

TEST_CASE("a dismissal ends a waiting node, and is ignored while workers run") {
  Stage waiting;
  waiting.join();
  CHECK(all<events::JobEnded>(waiting.heard(t0, link::Dismissed{"a test"}))[0].exit_code == 0);
  Stage running;
  running.run();
  CHECK(running.heard(t0, link::Dismissed{"a test"}).empty());
}

TEST_CASE("a node that has succeeded leaves as drained when it is asked to stop") {
  Stage stage;
  stage.run();
  stage.end_worker(t0, {});
  const auto leaving = stage.agent.handle(t0 + 1s, agent::Signalled{SIGTERM});
  CHECK(said<link::Leave>(leaving).size() == 1);
  CHECK(said<link::Drained>(leaving) == std::vector{link::Drained{first}});
  CHECK(all<events::JobEnded>(leaving).size() == 1);
}

}  // namespace agent_orders_test
