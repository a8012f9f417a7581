// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/local_workers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace local_workers_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr RoundNumber first{1};
constexpr LocalRank only{0};

// One worker, which has started.
struct Round {
  Round() {
    workers.begin(t0, {WorkerSpec{.argv = {"/bin/true"}}},
                  {.round = first, .group_rank = GroupRank{1}, .host = "beta"}, "",
                  /*captures_timeouts=*/true, actions);
    workers.handle(t0, supervisor::Started{only, 100}, actions);
  }
  void end(TimePoint now, link::ExitStatus status) {
    workers.handle(now, supervisor::Exited{only, status, WallTime{}}, actions);
    workers.handle(now, supervisor::TreeSeen{}, actions);
    workers.handle(now, supervisor::GroupGone{only}, actions);
    workers.handle(now, supervisor::NodeSwept{}, actions);
  }
  int sent(int signal) const {
    return static_cast<int>(std::ranges::count_if(actions, [signal](const agent::Action& each) {
      const auto* const work = std::get_if<agent::Work>(&each);
      if (work == nullptr) return false;
      const auto* const group = std::get_if<supervisor::SignalGroup>(&work->action);
      const auto* const worker = std::get_if<supervisor::SignalWorker>(&work->action);
      return (group != nullptr && group->signal == signal) ||
             (worker != nullptr && worker->signal == signal);
    }));
  }

  LocalWorkers workers{{.grace = 30s}, std::nullopt};
  LocalWorkers::Actions actions;
};

}  // namespace

TEST_CASE(
    "workers that exited with 0 have ended once none of their processes is left, reported once") {
  Round round;
  CHECK_FALSE(round.workers.take_end());
  round.end(t0 + 1s, {});
  const auto end = round.workers.take_end();
  REQUIRE(end);
  CHECK(end->succeeded);
  CHECK_FALSE(end->exit);
  CHECK_FALSE(round.workers.take_end());
}

TEST_CASE("a failed worker has ended only when its evidence has arrived") {
  Round round;
  round.end(t0 + 1s, {.signalled = false, .value = 3});
  CHECK_FALSE(round.workers.take_end());
  const auto& last = round.actions;
  const auto examine = std::ranges::find_if(
      last, [](const agent::Action& each) { return std::holds_alternative<agent::Examine>(each); });
  REQUIRE(examine != last.end());
  Evidence evidence{.outcome = std::get<agent::Examine>(*examine).outcome};
  LocalWorkers::Actions actions;
  CHECK(round.workers.examined(std::move(evidence), actions));
  const auto end = round.workers.take_end();
  REQUIRE(end);
  CHECK_FALSE(end->succeeded);
}

TEST_CASE("paused workers are resumed once, and their deadlines move by the time suspended") {
  Round round;
  round.workers.stop(t0, "a node is lost", SIGTERM, round.actions);
  const auto before = round.workers.next_deadline();
  REQUIRE(before);
  round.workers.pause(t0 + 60s, 60s, round.actions);
  CHECK(round.sent(SIGSTOP) == 1);
  CHECK(round.workers.next_deadline() == *before + 60s);
  round.workers.resume(t0 + 61s, round.actions);
  round.workers.resume(t0 + 61s, round.actions);
  CHECK(round.sent(SIGCONT) == 1);
}

TEST_CASE("a save is delivered when it is due, and not to workers that are being stopped") {
  Round round;
  round.workers.save_at(t0 + 2s, SIGUSR1);
  CHECK(round.workers.next_deadline() == t0 + 2s);
  round.workers.advance(t0 + 2s, round.actions);
  CHECK(round.sent(SIGUSR1) == 1);
  round.workers.save_at(t0 + 4s, SIGUSR1);
  round.workers.stop(t0 + 3s, "a node is lost", SIGTERM, round.actions);
  round.workers.advance(t0 + 4s, round.actions);
  CHECK(round.sent(SIGUSR1) == 1);
}

TEST_CASE("a worker that is restarted alone has a new failure to report, with its number") {
  LocalWorkers workers{{.grace = 30s, .restart_scope = RestartScope::worker}, std::nullopt};
  LocalWorkers::Actions actions;
  WorkerSpec spec;
  workers.begin(t0, {spec}, {.round = RoundNumber{1}, .host = "h", .restarts_alone = true}, "",
                /*captures_timeouts=*/true, actions);
  const auto fail = [&](TimePoint now) {
    actions.clear();
    workers.handle(now, supervisor::Started{only, 100}, actions);
    workers.handle(now, supervisor::Exited{only, {.signalled = false, .value = 3}}, actions);
    workers.handle(now, supervisor::GroupGone{only}, actions);
    const auto examine = std::ranges::find_if(actions, [](const agent::Action& each) {
      return std::holds_alternative<agent::Examine>(each);
    });
    REQUIRE(examine != actions.end());
    Evidence evidence{.outcome = std::get<agent::Examine>(*examine).outcome};
    return workers.examined(std::move(evidence), actions);
  };
  const link::RestartWorker message{
      .round = RoundNumber{1}, .attempt = 1, .restart_count = 4, .reason = "restart 4 of 9"};
  const auto one = fail(t0 + 1s);
  REQUIRE(one);
  CHECK(one->attempt == 0);
  CHECK_FALSE(workers.take_end());
  actions.clear();
  workers.restart(t0 + 1s, message, spec, actions);
  REQUIRE(actions.size() == 3);
  CHECK(std::get<events::WorkerRestarting>(actions[0]).restart_count == 4);
  CHECK(std::get<agent::Prepare>(actions[1]).is_restart);
  CHECK(std::holds_alternative<agent::Work>(actions[2]));
  // The message may be repeated.
  actions.clear();
  workers.restart(t0 + 1s, message, spec, actions);
  CHECK(actions.empty());
  const auto two = fail(t0 + 2s);
  REQUIRE(two);
  CHECK(two->attempt == 1);
  CHECK(two->noticed == link::AgentTime{2s});
  // The drain that follows reports nothing a second time.
  actions.clear();
  workers.stop(t0 + 3s, "no restart is left", SIGTERM, actions);
  workers.handle(t0 + 3s, supervisor::TreeSeen{}, actions);
  workers.handle(t0 + 3s, supervisor::NodeSwept{}, actions);
  CHECK(std::ranges::none_of(actions, [](const agent::Action& each) {
    return std::holds_alternative<agent::Examine>(each);
  }));
  const auto end = workers.take_end();
  REQUIRE(end);
  CHECK_FALSE(end->succeeded);
}

namespace {

// Two workers of a round in which failed workers are restarted alone.
struct Pair {
  Pair() {
    specs[1].local_rank = LocalRank{1};
    specs[1].rank = Rank{1};
    workers.begin(t0, specs, {.round = first, .host = "h", .restarts_alone = true}, "",
                  /*captures_timeouts=*/false, actions);
    for (const WorkerSpec& each : specs) {
      workers.handle(t0, supervisor::Started{each.local_rank, 100 + each.local_rank.value},
                     actions);
    }
  }
  void fail(TimePoint now, int rank) {
    workers.handle(now, supervisor::Exited{LocalRank{rank}, {.signalled = false, .value = 3}},
                   actions);
  }
  void gone(TimePoint now, int rank) {
    workers.handle(now, supervisor::GroupGone{LocalRank{rank}}, actions);
  }
  // All evidence that is awaited, as reported to the coordinator.
  std::vector<link::Failed> examine() {
    std::vector<link::Failed> told;
    for (const auto& each : all<agent::Examine>()) {
      if (auto one = workers.examined({.outcome = each.outcome}, actions)) told.push_back(*one);
    }
    return told;
  }
  void restart(TimePoint now, int rank, Duration pause = {}) {
    workers.restart(now, {.round = first, .rank = Rank{rank}, .attempt = 1, .pause = pause},
                    specs[static_cast<std::size_t>(rank)], actions);
  }
  template <class A>
  std::vector<A> all() const {
    std::vector<A> found;
    for (const auto& each : actions) {
      if (const auto* one = std::get_if<A>(&each)) found.push_back(*one);
    }
    return found;
  }
  int spawned() const {
    return static_cast<int>(std::ranges::count_if(actions, [](const agent::Action& each) {
      const auto* const work = std::get_if<agent::Work>(&each);
      return work != nullptr && std::holds_alternative<supervisor::Spawn>(work->action);
    }));
  }

  std::vector<WorkerSpec> specs = std::vector<WorkerSpec>(2);
  LocalWorkers workers{{.grace = 30s, .restart_scope = RestartScope::worker}, std::nullopt};
  LocalWorkers::Actions actions;
};

}  // namespace

TEST_CASE("a restart is prepared once the predecessor is gone, together with others due then") {
  Pair pair;
  pair.fail(t0, 0);
  pair.fail(t0, 1);
  pair.examine();
  pair.actions.clear();
  pair.restart(t0, 0, 2s);
  pair.restart(t0, 1, 2s);
  CHECK(pair.all<agent::Prepare>().empty());
  pair.gone(t0 + 1s, 0);
  pair.gone(t0 + 1s, 1);
  CHECK(pair.all<agent::Prepare>().empty());
  pair.workers.advance(t0 + 2s, pair.actions);
  REQUIRE(pair.all<agent::Prepare>().size() == 1);
  CHECK(pair.all<agent::Prepare>()[0].specs.size() == 2);
  CHECK(pair.spawned() == 2);
}

TEST_CASE("a failure is reported once, even if the round ends before the restart") {
  Pair pair;
  pair.fail(t0, 1);
  CHECK(pair.examine().size() == 1);
  pair.gone(t0, 1);
  pair.restart(t0, 1, 60s);
  pair.actions.clear();
  pair.workers.stop(t0 + 1s, "a node is lost", SIGTERM, pair.actions);
  pair.workers.handle(t0 + 1s,
                      supervisor::Exited{only, {.signalled = true, .value = SIGTERM}, WallTime{}},
                      pair.actions);
  pair.workers.handle(t0 + 1s, supervisor::TreeSeen{}, pair.actions);
  pair.gone(t0 + 1s, 0);
  pair.workers.handle(t0 + 1s, supervisor::NodeSwept{}, pair.actions);
  for (const auto& each : pair.all<agent::Examine>()) {
    CHECK(each.outcome.local_rank != LocalRank{1});
  }
}

TEST_CASE("a stop of a paused node starts no worker first") {
  for (const bool after_capture : {false, true}) {
    Pair pair;
    pair.fail(t0, 1);
    pair.examine();
    pair.gone(t0, 1);
    pair.workers.pause(t0 + 1s, 1s, pair.actions);
    pair.restart(t0 + 1s, 1);
    if (after_capture) {
      pair.workers.stop_after_capture(t0 + 2s, "a node is lost", pair.actions);
    } else {
      pair.workers.stop(t0 + 2s, "a node is lost", SIGTERM, pair.actions);
    }
    CHECK(pair.spawned() == 2);  // at the start of the round
  }
}

TEST_CASE("when a process cannot be killed, the failures that follow restart no worker alone") {
  Pair pair;
  pair.fail(t0, 1);
  pair.examine();
  pair.restart(t0, 1);
  pair.workers.advance(t0 + 1h, pair.actions);
  REQUIRE(pair.all<supervisor::Draining>().size() == 1);
  pair.actions.clear();
  pair.workers.handle(t0 + 1h + 1s, supervisor::Exited{only, {.signalled = true, .value = SIGSEGV}},
                      pair.actions);
  pair.workers.handle(t0 + 1h + 1s, supervisor::TreeSeen{}, pair.actions);
  pair.gone(t0 + 1h + 1s, 0);
  pair.gone(t0 + 1h + 1s, 1);
  pair.workers.handle(t0 + 1h + 1s, supervisor::NodeSwept{}, pair.actions);
  const auto told = pair.examine();
  REQUIRE(told.size() == 1);
  CHECK(told[0].failure.rank == Rank{0});
  CHECK(told[0].late);
  CHECK(pair.workers.take_end());
}

}  // namespace local_workers_test
