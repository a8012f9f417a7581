// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The part of a job that outlives its coordinator (JobRecord).

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/restart_policy.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"
#include "rendezvous/job/time_accounting.h"

namespace cpprun {

// A worker that was restarted alone in the running round, for the last time (link::RestartWorker).
struct RestartedWorker {
  Rank rank{};
  int attempt = 1;
  int restart_count = 0;
  TimePoint due{};  // when it starts
  std::string reason;
  friend bool operator==(const RestartedWorker&, const RestartedWorker&) = default;
};

// The part of a job that outlives its coordinator: which nodes had a seat, which restarts were
// used, and the history that people want to see. It does not include the contents of the store. A
// job that resumes from a record restarts its round on an empty store, which uses no restart.
//
// A record is made at each step of the round, not for each message of a node. A node repeats what
// it reported in a round when its link comes back (Failed, Succeeded, Drained), and a spare asks
// for a seat again.
struct JobRecord {
  struct Node {
    link::Join join;  // as first received
    std::string peer;
    std::vector<std::string> further_peers = {};
    Member::State state = Member::State::waiting;
    std::optional<GroupRank> group_rank = {};  // in that round
    RankRange ranks = {};
    bool leaving = false;
    std::string dismissed = {};
    bool hosts = false;  // its cpprun is also the coordinator, or started it
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::string founder;  // address of the first node
  std::string owner;    // owner of the secret that the first node held; empty: no secret
  RoundNumber round{};  // the last sealed round
  Round::Phase phase = Round::Phase::gathering;
  int world_size = 0;
  // Nodes that have a seat in that round or wait for the next one. If there are none, the job
  // cannot be resumed.
  std::vector<Node> nodes;
  TimePoint sealed_at{};
  std::optional<TimePoint> since = {};  // start of the phase, or the end of the job
  RestartState restarts = {};
  RoundEnd round_end = {};
  std::optional<TimePoint> pause_until = {};
  std::string why_again = {};
  // When the coordinator that wrote this record was last alive, as far as its successor knows. Not
  // serialized.
  std::optional<TimePoint> alive = {};
  // Votes that a standby needs to resume the job. 0: there is no standby, or the record is of an
  // older version of cpprun, and more than half of the nodes are needed.
  std::size_t votes_needed = 0;
  Duration takeover_window{};  // that its nodes may have been told of; serialized in milliseconds
  std::optional<link::Finish> finish = {};
  RoundHistory::Kept history = {};
  TimeAccounting::Kept time = {};
  std::vector<Exclusions::Entry> exclusions = {};
  std::vector<EvictedNodes::Entry> evicted_nodes = {};

  // Workers that were restarted alone in that round, by rank.
  std::vector<RestartedWorker> restarted_workers = {};

  const std::string& job() const { return nodes.front().join.job; }
};

}  // namespace cpprun
