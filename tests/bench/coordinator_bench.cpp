// SPDX-License-Identifier: BSD-3-Clause
// The cost of one heartbeat in the coordinator's decisions, with one job and with a thousand beside
// it: other jobs must not slow a daemon down. No sockets, no clock but ours.
//
//   coordinator_bench
//
// Prints a table: jobs, microseconds from a received heartbeat to its answer and the next deadline.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"

namespace {

using namespace cpprun;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int heartbeats = 20'000;
constexpr int rounds = 5;

// A daemon with so many jobs of one node each, all of them running.
Coordinator daemon_with(int jobs) {
  Coordinator coordinator(
      {.only = {}, .options = {.lease = 3s, .status_interval = 5s, .last_call = 30s}});
  for (int job = 0; job < jobs; ++job) {
    const LinkId link{static_cast<std::uint64_t>(job) + 1};
    const std::string name = fmt::format("job{}", job);
    // Each from a machine of its own.
    const std::string peer = fmt::format("10.1.{}.{}", job / 250, job % 250 + 1);
    coordinator.handle(TimePoint{}, Coordinator::Opened{{.link = link, .peer = peer}});
    coordinator.handle(
        TimePoint{},
        Coordinator::Said{
            link,
            link::Join{.job = name, .host = "host", .pid = 1, .lease = std::chrono::seconds(60)}});
    coordinator.handle(TimePoint{}, Coordinator::StoreReady{name, 4000});
  }
  return coordinator;
}

double microseconds_per_heartbeat(int jobs) {
  Coordinator coordinator = daemon_with(jobs);
  TimePoint now{};
  std::vector<double> took;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    for (int index = 0; index < heartbeats; ++index) {
      now += 1us;
      const LinkId link{static_cast<std::uint64_t>(index % jobs) + 1};
      const auto actions =
          coordinator.handle(now, Coordinator::Said{link, link::Heartbeat{.sent = 1s}});
      if (actions.size() != 1 || !coordinator.next_deadline()) return -1;
    }
    const std::chrono::duration<double, std::micro> all = Clock::now() - begin;
    took.push_back(all.count() / heartbeats);
  }
  return *std::ranges::min_element(took);
}

}  // namespace

int main() {
  fmt::print("jobs  us/heartbeat\n");
  for (const int jobs : {1, 32, 1024}) {
    fmt::print("{:4}  {:12.2f}\n", jobs, microseconds_per_heartbeat(jobs));
  }
}
