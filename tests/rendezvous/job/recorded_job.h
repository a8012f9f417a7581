// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A record in which every member is set, for the tests of its bytes.

#include "rendezvous/job/job.h"

namespace cpprun::testing {

using namespace std::chrono_literals;

inline link::Join recorded_join(int rank) {
  return link::Join{.job = "j",
                    .host = "host" + std::to_string(rank),
                    .pid = 100 + rank,
                    .agent = 7u,
                    .nodes_min = 2,
                    .nodes_max = 3,
                    .local_world_size = 2,
                    .restarts = {.max = 3, .budgets = {{"hang", 1}}, .backoff = 10s},
                    .addresses = {"10.1.0.1"},
                    .lease = 3s,
                    .last_call = 30s,
                    .sent = link::AgentTime{5}};
}

inline const link::Failure recorded_failure{
    .rank = Rank{2},
    .local_rank = LocalRank{0},
    .group_rank = GroupRank{1},
    .host = "host1",
    .pid = 77,
    .status = {false, 7},
    .time = WallTime{std::chrono::microseconds{1'770'000'000'000'000}},
    .message = "boom",
    .cause = "silent_exit"};

inline JobRecord recorded_job(TimePoint now) {
  JobRecord record{.founder = "10.0.0.1",
                   .owner = "ann",
                   .round = RoundNumber{4},
                   .phase = Round::Phase::draining,
                   .world_size = 4,
                   .sealed_at = now - 60s,
                   .since = now - 1s,
                   .why_again = "rank 1 failed",
                   .votes_needed = 3,
                   .takeover_window = std::chrono::seconds(4)};
  record.nodes.push_back({.join = recorded_join(0),
                          .peer = "10.0.0.1",
                          .further_peers = {"10.0.1.1"},
                          .state = Member::State::running,
                          .group_rank = GroupRank{0},
                          .ranks = {Rank{0}, 0, 4}});
  record.nodes.push_back({.join = recorded_join(1),
                          .peer = "10.0.0.2",
                          .state = Member::State::drained,
                          .group_rank = GroupRank{1},
                          .ranks = {Rank{2}, 2, 4},
                          .leaving = true,
                          .dismissed = "ann drained it"});
  record.restarts = {.restarts_used = 2,
                     .spent = {{"", {now - 50s}}, {"hang", {now - 40s, now - 30s}}},
                     .farthest = {.step = 900, .checkpoint_step = 800},
                     .fruitless = 1,
                     .host_failures = {{"host1", {now - 40s}}}};
  record.round_end = {.reason = "rank 2 on host1 failed",
                      .at = now - 1s,
                      .stop = link::Leave{.signal = 15, .reason = "asked"},
                      .why_no_other = "asked",
                      .change = true,
                      .ordered = true,
                      .reached = {.step = 901, .checkpoint_step = 800}};
  record.round_end.failures.add({.failure = recorded_failure,
                                 .at = now - 1s,
                                 .lost = false,
                                 .what = "rank 2 on host1 failed",
                                 .noticed = link::AgentTime{99},
                                 .heard = now - 1s,
                                 .late = true});
  record.round_end.failures.add_leaver({.failure = recorded_failure,
                                        .at = now - 2s,
                                        .what = "rank 2 on host1 exited with code 0",
                                        .noticed = link::AgentTime{98},
                                        .heard = now - 1s});
  record.pause_until = now + 5s;
  record.finish = link::Finish{.exit_code = 7, .reason = "failed", .root = recorded_failure};
  RoundHistory history;
  history.sealed(now - 100s, RoundNumber{3}, 1);
  history.closed(now - 70s, record.round_end, true);
  history.sealed(now - 60s, RoundNumber{4}, 2);
  record.history = history.kept();
  TimeAccounting time;
  TimeAccounting::Nodes nodes{};
  nodes[static_cast<std::size_t>(Account::training)] = 2;
  time.sealed(now - 60s);
  time.place(now - 60s, nodes);
  time.trains();
  time.broken(now - 1s);
  record.time = time.kept();
  record.exclusions = {{"bad", now + 60s, "ann excluded bad"}, {"worse", {}, "ann"}};
  record.evicted_nodes = {{"host9", 12, 13, "ann drained it"}};
  return record;
}

}  // namespace cpprun::testing
