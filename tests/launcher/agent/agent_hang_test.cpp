// SPDX-License-Identifier: BSD-3-Clause
// What an agent does about hangs: it reports that its workers make no progress, captures what they
// do, and ends the worker that is to blame.

#include <doctest/doctest.h>

#include <algorithm>

#include "launcher/agent/hang_reports.h"
#include "rendezvous/hang/evidence_json.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_hang_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

Config watching() {
  Config config = two_nodes();
  config.hang_timeout = 60s;
  return config;
}

hang::Observation asleep() {
  return {.local_rank = LocalRank{0},
          .rank = Rank{1},
          .pid = 100,
          .process = {.pid = 100, .name = "train", .state = 'T', .thread_count = 1}};
}

const link::Verdict verdict{.round = first,
                            .number = 4,
                            .rank = Rank{1},
                            .quiet = 61s,
                            .kind = "stopped",
                            .sentence = "rank 1 is stopped by a signal",
                            .clusters = {"rank 1: is stopped"}};

}  // namespace

TEST_CASE("heartbeats tell how long no worker has made progress") {
  Stage stage(false, watching());
  stage.run();
  for (int second = 1; second < 10; ++second) {
    const auto actions = stage.agent.advance(t0 + second * 1s);
    stage.answered(t0 + second * 1s);
    for (const auto& beat : said<link::Heartbeat>(actions)) {
      CHECK(beat.hang_timeout == 60s);
      CHECK((beat.quiet > 0s) == (second > 3));
    }
    if (all<agent::ReadProgress>(actions).empty()) continue;
    CHECK(second % 3 == 0);
    stage.agent.handle(t0 + second * 1s, agent::ProgressSeen{{{.local_rank = LocalRank{0}}}});
  }
  // The end of the silence is reported at once.
  const auto seen =
      stage.agent.handle(t0 + 10s, agent::ProgressSeen{{{.local_rank = LocalRank{0}, .beats = 1}}});
  REQUIRE(said<link::Heartbeat>(seen).size() == 1);
  CHECK(said<link::Heartbeat>(seen)[0].quiet == 0s);
}

TEST_CASE("a capture that fails is no progress of a worker that computes") {
  Stage stage(false, watching());
  stage.run();
  std::vector<link::Heartbeat> beats;
  for (int second = 1; second < 15; ++second) {
    const TimePoint now = t0 + second * 1s;
    const auto actions = stage.agent.advance(now);
    stage.answered(now);
    for (const auto& beat : said<link::Heartbeat>(actions)) beats.push_back(beat);
    if (second == 10) {
      stage.heard(now, link::Capture{first, 4});
      stage.agent.handle(now, agent::WorkersObserved{4, {}});
    }
    if (all<agent::ReadProgress>(actions).empty()) continue;
    const ProgressSigns signs{.local_rank = LocalRank{0}, .cpu = second * 1s};
    stage.agent.handle(now, agent::ProgressSeen{{signs}});
  }
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().quiet > 12s);
}

TEST_CASE("without --hang-timeout nothing is read") {
  Stage stage;
  stage.run();
  CHECK(all<agent::ReadProgress>(stage.pass(t0 + 2s)).empty());
}

TEST_CASE("a capture is answered with what the workers do") {
  Stage stage;
  stage.run();
  const auto asked = stage.heard(t0 + 1s, link::Capture{first, 4});
  CHECK(all<agent::ReadProgress>(asked).empty());
  REQUIRE(all<agent::ObserveWorkers>(asked).size() == 1);
  CHECK(all<agent::ObserveWorkers>(asked)[0].number == 4);
  const auto told = stage.agent.handle(t0 + 2s, agent::WorkersObserved{4, {asleep()}});
  const auto parts = said<link::Captured>(told);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].number == 4);
  const auto evidence = hang::parse_evidence(parts[0].bytes);
  REQUIRE(evidence);
  REQUIRE(evidence->clusters.size() == 1);
  CHECK(evidence->clusters[0].activity == hang::Activity::stopped);
}

TEST_CASE("a capture of another round is ignored") {
  Stage stage;
  stage.run();
  CHECK(all<agent::ObserveWorkers>(stage.heard(t0, link::Capture{second, 4})).empty());
}

TEST_CASE("the verdict ends the worker that is to blame, and names the file with its stacks") {
  Stage stage(false, watching());
  stage.run();
  stage.agent.handle(t0 + 61s, agent::WorkersObserved{4, {asleep()}, "/logs/stacks-1.txt"});
  stage.answered(t0 + 61s);
  const auto actions = stage.heard(t0 + 61s, verdict);
  REQUIRE(all<events::HangFound>(actions).size() == 1);
  CHECK(all<events::HangFound>(actions)[0].is_here);
  CHECK(all<events::HangFound>(actions)[0].stacks_file == "/logs/stacks-1.txt");
  REQUIRE(all<supervisor::Failed>(actions).size() == 1);
  const Outcome outcome = all<supervisor::Failed>(actions)[0].outcome;
  CHECK(outcome.hung_for == 61s);
  CHECK(outcome.verdict == "rank 1 is stopped by a signal");
  const auto judged = stage.agent.handle(t0 + 61s, agent::Examined{{.outcome = outcome}});
  REQUIRE(said<link::Failed>(judged).size() == 1);
  const link::Failure failure = said<link::Failed>(judged)[0].failure;
  CHECK(failure.cause == "no_progress");
  CHECK(failure.message ==
        "stopped by cpprun: no rank made progress for 61 s; rank 1 is stopped by a signal");
}

TEST_CASE("a verdict about another node is shown, and no worker of this one is ended for it") {
  Stage stage;
  stage.run();
  link::Verdict other = verdict;
  other.rank = Rank{0};
  const auto actions = stage.heard(t0, other);
  REQUIRE(all<events::HangFound>(actions).size() == 1);
  CHECK_FALSE(all<events::HangFound>(actions)[0].is_here);
  CHECK(all<supervisor::Failed>(actions).empty());
}

namespace {

constexpr link::ExitStatus failed{.signalled = false, .value = 1};

// PyTorch's timeout has struck in the only worker of the node, which exits a second later.
Stage timed_out(TimePoint now) {
  Stage stage;
  stage.run();
  const auto seen = stage.agent.handle(now, agent::TimeoutSeen{});
  REQUIRE(said<link::Heartbeat>(seen).size() == 1);
  CHECK(said<link::Heartbeat>(seen)[0].timed_out);
  const auto exited = stage.worker(now + 1s, supervisor::Exited{LocalRank{0}, failed, WallTime{}});
  CHECK(all<supervisor::Failed>(exited).empty());
  CHECK(all<supervisor::Draining>(exited).empty());
  return stage;
}

}  // namespace

TEST_CASE("after a timeout of PyTorch, a failure waits for the capture") {
  Stage stage = timed_out(t0);
  SUBCASE("until it has replied") {
    stage.heard(t0 + 1s, link::Capture{.round = first, .number = 4, .is_timeout = true});
    // An operator's capture tells nothing about this one.
    CHECK(
        all<supervisor::Failed>(stage.agent.handle(t0 + 1s, agent::WorkersObserved{3, {asleep()}}))
            .empty());
    const auto told = stage.agent.handle(t0 + 2s, agent::WorkersObserved{4, {asleep()}});
    CHECK(said<link::Captured>(told).size() == 1);
    CHECK(all<supervisor::Failed>(told).size() == 1);
    CHECK(all<supervisor::Draining>(told).size() == 1);
  }
  SUBCASE("for a limited time") {
    for (int second = 1; second < 4; ++second) {
      stage.answered(t0 + second * 1s);
      CHECK(all<supervisor::Failed>(stage.agent.advance(t0 + second * 1s)).empty());
    }
    CHECK(stage.agent.next_deadline() <= t0 + LocalWorkers::capture_max);
    const auto late = stage.agent.advance(t0 + LocalWorkers::capture_max);
    CHECK(all<supervisor::Failed>(late).size() == 1);
  }
  SUBCASE("unless the node is asked to stop") {
    const auto stopped = stage.agent.handle(t0 + 1s, agent::Signalled{SIGTERM});
    CHECK(all<supervisor::Failed>(stopped).size() == 1);
  }
}

TEST_CASE("heartbeats that were read during a capture are read again after it") {
  Stage stage;
  stage.run();
  stage.agent.handle(t0, agent::TimeoutSeen{});
  const auto reads = [](const Agent::Actions& actions) {
    return std::ranges::count_if(all<agent::Work>(actions), [](const agent::Work& work) {
      return std::holds_alternative<supervisor::ReadHeartbeats>(work.action);
    });
  };
  CHECK(reads(stage.worker(t0 + 1s, supervisor::HeartbeatsSeen{})) == 0);
  CHECK(reads(stage.agent.advance(t0 + LocalWorkers::capture_max)) == 1);
  CHECK(reads(stage.agent.advance(t0 + LocalWorkers::capture_max + 1s)) == 0);
}

TEST_CASE("a node without a timeout of its own ends its workers after the capture") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Capture{.round = first, .number = 4, .is_timeout = true});
  const auto drained = stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed"});
  CHECK(all<supervisor::Draining>(drained).empty());
  const auto told = stage.agent.handle(t0 + 1s, agent::WorkersObserved{4, {asleep()}});
  CHECK(all<supervisor::Draining>(told).size() == 1);
  // The verdict comes later, and ends no worker.
  link::Verdict late = verdict;
  late.is_timeout = true;
  const auto judged = stage.heard(t0 + 1s, late);
  CHECK(all<events::HangFound>(judged).size() == 1);
  CHECK(all<supervisor::Failed>(judged).empty());
}

TEST_CASE("an ordinary failure waits for no capture") {
  Stage stage;
  stage.run();
  SUBCASE("nor for that of an operator") {
    stage.heard(t0, link::Capture{first, 4});
  }
  SUBCASE("nor for a timeout while the workers are being stopped") {
    stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed"});
    CHECK(said<link::Heartbeat>(stage.agent.handle(t0, agent::TimeoutSeen{})).empty());
    return;
  }
  SUBCASE("by itself") {}
  const auto exited = stage.worker(t0, supervisor::Exited{LocalRank{0}, failed, WallTime{}});
  CHECK(all<supervisor::Failed>(exited).size() == 1);
}

TEST_CASE("SIGQUIT shows what the workers do, and then ends the job") {
  Stage stage;
  stage.run();
  const auto asked = stage.agent.handle(t0, agent::Signalled{SIGQUIT});
  REQUIRE(all<agent::ObserveWorkers>(asked).size() == 1);
  CHECK(said<link::Leave>(asked).empty());
  SUBCASE("when they have been read") {
    const auto number = all<agent::ObserveWorkers>(asked)[0].number;
    const auto shown = stage.agent.handle(t0, agent::WorkersObserved{number, {asleep()}});
    REQUIRE(notes(shown).size() >= 1);
    CHECK(notes(shown)[0].sentence.starts_with("workers on this node:\n  rank 1"));
    CHECK(said<link::Leave>(shown).size() == 1);
  }
  SUBCASE("or at once, after another signal") {
    CHECK(said<link::Leave>(stage.agent.handle(t0, agent::Signalled{SIGTERM})).size() == 1);
  }
}

namespace {

// The worker writes its stderr to a file.
Config with_files() {
  Config config = two_nodes();
  config.logs.root = "/logs";
  config.logs.redirects = {.all = {.out = false, .err = true}, .by_local_rank = {}};
  return config;
}

Agent::Actions exited(Stage& stage, link::ExitStatus status) {
  return stage.worker(t0, supervisor::Exited{LocalRank{0}, status, WallTime{}});
}

}  // namespace

TEST_CASE("if stderr is a file, a failure waits until its last lines were read") {
  Stage stage(false, with_files(), "/logs");
  stage.run();
  const auto end = exited(stage, failed);
  REQUIRE(all<agent::ReadLastLines>(end).size() == 1);
  CHECK(all<supervisor::Failed>(end).empty());
  SUBCASE("and if they show a timeout, for the capture") {
    const auto read = stage.agent.handle(t0, agent::LastLinesRead{.show_timeout = true});
    REQUIRE(said<link::Heartbeat>(read).size() == 1);
    CHECK(said<link::Heartbeat>(read)[0].timed_out);
    CHECK(all<supervisor::Failed>(read).empty());
    stage.heard(t0, link::Capture{.round = first, .number = 4, .is_timeout = true});
    const auto told = stage.agent.handle(t0, agent::WorkersObserved{4, {asleep()}});
    CHECK(all<supervisor::Failed>(told).size() == 1);
  }
  SUBCASE("and is reported at once if they do not") {
    const auto read = stage.agent.handle(t0, agent::LastLinesRead{});
    CHECK(all<supervisor::Failed>(read).size() == 1);
    CHECK(said<link::Heartbeat>(read).empty());
  }
  SUBCASE("for a limited time") {
    CHECK(all<supervisor::Failed>(stage.agent.advance(t0 + LocalWorkers::last_lines_max)).size() ==
          1);
    CHECK(said<link::Heartbeat>(stage.agent.handle(t0 + 2s, agent::LastLinesRead{true})).empty());
  }
  SUBCASE("or until another node has seen a timeout") {
    stage.heard(t0, link::Capture{.round = first, .number = 4, .is_timeout = true});
    CHECK(all<supervisor::Failed>(stage.agent.handle(t0, agent::LastLinesRead{})).empty());
    const auto told = stage.agent.handle(t0, agent::WorkersObserved{4, {asleep()}});
    CHECK(all<supervisor::Failed>(told).size() == 1);
  }
}

TEST_CASE("no lines are read of a worker that has succeeded, crashed, or is being stopped") {
  Stage stage(false, with_files(), "/logs");
  stage.run();
  link::ExitStatus status;
  SUBCASE("succeeded") {}
  SUBCASE("crashed") {
    status = {.signalled = true, .value = SIGSEGV};
  }
  SUBCASE("is being stopped") {
    stage.heard(t0, link::Drain{.round = first, .reason = "rank 0 failed"});
    status = failed;
  }
  CHECK(all<agent::ReadLastLines>(exited(stage, status)).empty());
}

TEST_CASE("a coordinator that requests no capture for a timeout is not waited for") {
  Stage stage(false, with_files(), "/logs");
  stage.join();
  link::Sealed old = seat();
  old.captures_timeouts = false;
  stage.heard(t0, old);
  stage.worker(t0, supervisor::Started{LocalRank{0}, 100});
  CHECK(said<link::Heartbeat>(stage.agent.handle(t0, agent::TimeoutSeen{})).empty());
  const auto end = exited(stage, failed);
  CHECK(all<agent::ReadLastLines>(end).empty());
  CHECK(all<supervisor::Failed>(end).size() == 1);
}

}  // namespace agent_hang_test
