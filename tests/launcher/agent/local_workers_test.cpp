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
                  {.round = first, .group_rank = GroupRank{1}, .host = "beta"}, "", actions);
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

}  // namespace local_workers_test
