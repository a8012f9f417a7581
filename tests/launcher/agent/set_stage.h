// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One agent of a job whose endpoints are three cpprunds, one of which is the leader.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/bounds.h"
#include "rendezvous/job/bounds.h"
#include "tests/launcher/agent/agent_stage.h"

namespace cpprun::testing {

using Asked = std::vector<Endpoint>;

inline const Endpoint a{"10.0.0.1", 29400};
inline const Endpoint b{"10.0.0.2", 29400};
inline const Endpoint c{"fd00::3", 29400};
inline constexpr Duration own_lease = 3s - bounds::fence_margin;
inline constexpr Duration takeover_window = 4s;
inline constexpr Duration attempt = 2 * bounds::turn_step;
inline constexpr link::ExitStatus killed{.signalled = true, .value = SIGKILL};

inline Config at_a_set() {
  Config config = two_nodes();
  config.rendezvous = RendezvousMode::endpoint;
  config.node_rank.reset();
  config.nodes_min = 1;
  config.place_by_endpoint = true;
  config.places = {a, b, c};
  config.endpoint = a;
  return config;
}

inline Config at_one() {
  Config config = at_a_set();
  config.places.clear();
  return config;
}

inline link::Members members(std::uint64_t epoch, Duration window = takeover_window) {
  return {epoch, {"10.0.0.1:29400", "10.0.0.2:29400", "[fd00::3]:29400"}, window};
}

struct Set : Stage {
  explicit Set(const Config& config = at_a_set()) : Stage(false, config) {}
  // At the first of them, which has announced that it is the leader.
  void run_at_first(std::uint64_t epoch = 6) {
    join();
    heard(t0, link::Waiting{"1 of 2 nodes have joined"});
    heard(t0, members(epoch));
    heard(t0, seat());
    worker(t0, supervisor::Started{LocalRank{0}, 100});
    answered(t0 + 1s);
  }
  Agent::Actions up(TimePoint now) { return agent.handle(now, agent::LinkUp{"10.0.0.2"}); }
  Agent::Actions down(TimePoint now, std::string why = "connection reset") {
    auto actions = agent.handle(now, agent::LinkDown{std::move(why)});
    CHECK_FALSE(agent.check());
    return actions;
  }
  Asked dialled_until(TimePoint until) {
    Asked places;
    for (const auto& dial : all<agent::Dial>(pass(until))) places.push_back(dial.at);
    return places;
  }
  // The same, when nothing listens anywhere.
  Asked refused_until(TimePoint until) {
    Asked places;
    for (auto due = agent.next_deadline(); due && *due <= until; due = agent.next_deadline()) {
      for (const auto& dial : all<agent::Dial>(agent.advance(*due))) {
        places.push_back(dial.at);
        down(*due, "connection refused");
      }
    }
    return places;
  }
  // Its link breaks, and it connects to the second endpoint, which accepts it.
  Agent::Actions turn_to_second(TimePoint broken, TimePoint found) {
    down(broken);
    pass(broken + 50ms);
    down(broken + 50ms, "connection refused");
    REQUIRE(dialled_until(broken + 50ms) == Asked{b});
    auto actions = up(found);
    append(actions,
           heard(found, link::Heartbeat{.sent = std::chrono::duration_cast<link::AgentTime>(
                                            found.time_since_epoch())}));
    return actions;
  }
};

}  // namespace cpprun::testing
