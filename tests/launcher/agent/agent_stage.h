// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One agent of a job of two nodes, brought step by step to where a test begins.

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent.h"

namespace cpprun::testing {

using namespace std::chrono_literals;

inline constexpr TimePoint t0{};
inline constexpr RoundNumber first{1};
inline constexpr RoundNumber second{2};

inline Config two_nodes() {
  Config config;
  config.rendezvous = RendezvousMode::fixed_master;
  config.endpoint = {"10.0.0.1", 29500};
  config.job = "j";
  config.nodes_min = config.nodes_max = 2;
  config.node_rank = 1;
  config.grace = 30s;
  config.join_timeout = 600s;
  config.program.script = "/bin/true";
  return config;
}

inline AgentFacts facts(bool hosts_coordinator = false, std::string run_directory = {}) {
  return {.host = "beta",
          .pid = 42,
          .hosts_coordinator = hosts_coordinator,
          .program = {.argv = {"/bin/true"}, .interpreter = "", .entrypoint = "true"},
          .node = {.run_directory = std::move(run_directory)},
          .interfaces = {{.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1"}},
                         {.name = "eth0", .up = true, .addresses = {"10.0.0.2", "fe80::2"}}}};
}

inline link::Sealed seat(RoundNumber round = first) {
  return {.round = round,
          .group_rank = GroupRank{1},
          .group_world_size = 2,
          .base_rank = Rank{1},
          .world_size = 2,
          .role_base_rank = 1,
          .role_world_size = 2,
          .store_port = 29500,
          .captures_timeouts = true};
}

template <class A>
std::vector<A> all(const Agent::Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

template <LogLevel level = LogLevel::info>
std::vector<events::Note> notes(const Agent::Actions& actions) {
  auto found = all<events::Note>(actions);
  std::erase_if(found, [](const events::Note& each) { return each.level != level; });
  return found;
}

template <class M>
std::vector<M> said(const Agent::Actions& actions) {
  std::vector<M> found;
  for (const auto& say : all<agent::Say>(actions)) {
    if (const auto* message = std::get_if<M>(&say.message)) found.push_back(*message);
  }
  return found;
}

template <class W>
std::vector<W> work(const Agent::Actions& actions) {
  std::vector<W> found;
  for (const auto& each : all<agent::Work>(actions)) {
    if (const auto* one = std::get_if<W>(&each.action)) found.push_back(*one);
  }
  return found;
}

inline bool kills(const Agent::Actions& actions) {
  const auto signals = work<supervisor::SignalGroup>(actions);
  return signals.size() == 1 && signals[0].signal == SIGKILL;
}

// One agent with one worker, brought step by step to where a test begins.
struct Stage {
  explicit Stage(bool hosts_coordinator = false, const Config& config = two_nodes(),
                 std::string run_directory = {})
      : agent(config, facts(hosts_coordinator, std::move(run_directory))) {
    agent.start(t0);
  }
  Agent::Actions heard(TimePoint now, link::Message message) {
    auto actions = agent.handle(now, agent::Heard{std::move(message)});
    CHECK_FALSE(agent.check());
    return actions;
  }
  Agent::Actions worker(TimePoint now, supervisor::ProcessEvent event) {
    auto actions = agent.handle(now, agent::FromWorker{std::move(event)});
    CHECK_FALSE(agent.check());
    // The workers of these tests have started no processes.
    if (!work<supervisor::WatchTree>(actions).empty()) {
      append(actions, agent.handle(now, agent::FromWorker{supervisor::TreeSeen{}}));
    }
    return actions;
  }
  void join() { agent.handle(t0, agent::LinkUp{"10.0.0.2"}); }
  void run() {
    join();
    heard(t0, seat());
    worker(t0, supervisor::Started{LocalRank{0}, 100});
  }
  // What the agent does until then, advanced at each of its deadlines.
  Agent::Actions pass(TimePoint until) {
    Agent::Actions actions;
    for (auto due = agent.next_deadline(); due && *due <= until; due = agent.next_deadline()) {
      append(actions, agent.advance(*due));
    }
    return actions;
  }
  // The coordinator answers a heartbeat that was sent at the same moment.
  void answered(TimePoint now) {
    heard(now, link::Heartbeat{
                   .sent = std::chrono::duration_cast<link::AgentTime>(now.time_since_epoch())});
  }
  // The worker's process ends and everything it left is swept. `said_last`: on its stderr.
  Agent::Actions end_worker(TimePoint now, link::ExitStatus status, std::string said_last = {}) {
    auto actions = worker(now, supervisor::Exited{LocalRank{0}, status, WallTime{}});
    examine_all(now, actions, said_last);
    append(actions, worker(now, supervisor::GroupGone{LocalRank{0}}));
    auto finished = worker(now, supervisor::NodeSwept{});
    examine_all(now, finished, said_last);
    append(actions, std::move(finished));
    return actions;
  }
  // Answers every request for evidence.
  void examine_all(TimePoint now, Agent::Actions& actions, const std::string& said_last = {}) {
    for (const auto& examine : all<agent::Examine>(Agent::Actions{actions})) {
      Evidence evidence{.outcome = examine.outcome};
      if (!said_last.empty()) evidence.last_lines = {said_last};
      append(actions, agent.handle(now, agent::Examined{evidence}));
    }
  }
  static void append(Agent::Actions& actions, Agent::Actions more) {
    for (auto& action : more) actions.push_back(std::move(action));
  }
  Agent agent;
};

}  // namespace cpprun::testing
