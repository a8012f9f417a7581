// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/simulated_election.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cpprun::sim {

SimulatedElection::SimulatedElection(Context place, ElectionOptions options, Told callback)
    : place_(place),
      callback_(std::move(callback)),
      driver_({.now = [this] { return now(); },
               .perform = [this](const election::Action& action) { perform(action); },
               .arm = [this](std::optional<TimePoint> deadline) { arm(deadline); }}) {
  driver_.begin(LeaderElection(std::move(options)));
}

void SimulatedElection::start() {
  driver_.start([](LeaderElection& election, TimePoint at) { return election.advance(at); });
}

void SimulatedElection::tell(election::Event event) {
  place_.etcd.judge().commands(place_.daemon, event);
  driver_.post(std::move(event));
}

void SimulatedElection::perform(const election::Action& action) {
  if (const auto* const asked = std::get_if<election::Ask>(&action)) return ask(*asked);
  TimePoint until{};
  if (const auto* const leads = std::get_if<election::Leads>(&action)) until = leads->until;
  if (const auto* const renewed = std::get_if<election::Renewed>(&action)) until = renewed->until;
  if (until != TimePoint{}) until = place_.clock.truth(until);
  place_.etcd.judge().received(place_.universe.time.now(), place_.daemon, action, until);
  callback_(action);
}

void SimulatedElection::ask(const election::Ask& ask) {
  // The timeout is measured by the daemon's own clock.
  const TimePoint deadline = place_.clock.truth(now() + ask.timeout);
  place_.etcd.ask(place_.daemon, ask, deadline,
                  [this, id = ask.id, alive = std::weak_ptr(alive_)](const etcd::Heard& heard) {
                    if (alive.expired()) return;
                    place_.program.receive([this, id, alive, heard] {
                      if (!alive.expired()) driver_.post(election::Answered{id, heard});
                    });
                  });
}

void SimulatedElection::arm(std::optional<TimePoint> deadline) {
  if (const auto broken = driver_.machine().check()) {
    place_.universe.judge.must(
        false, fmt::format("the election of cpprund {}: {}", place_.daemon, *broken));
  }
  const auto number = ++timer_;
  if (!deadline) return;
  Timeline& time = place_.universe.time;
  const bool is_due = *deadline <= now();
  const TimePoint due = is_due ? time.now() : place_.clock.truth(*deadline);
  time.at(due, [this, number, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || number != timer_) return;
    place_.program.receive(
        [this, alive] {
          if (!alive.expired()) driver_.advance();
        },
        true);
  });
}

}  // namespace cpprun::sim
