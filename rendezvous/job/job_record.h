// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What of a job outlives its coordinator: who had a seat, what was used of its restarts, and what
// people want to know of its past. Not what its store held: a job that goes on from here begins its
// round anew, on a store that is empty, and spends no restart for that.
//
// A record is made at each step of the round, and not for each word of a node: what a node says in
// a round it says again when its link comes back (Failed, Succeeded, Drained), and a spare asks for
// a seat again.

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/job/dismissals.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/restart_state.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_end.h"
#include "rendezvous/job/round_history.h"
#include "rendezvous/job/time_ledger.h"

namespace cpprun {

struct JobRecord {
  struct Node {
    link::Join join;  // as it was said first
    std::string peer;
    std::vector<std::string> further_peers = {};
    Member::State state = Member::State::waiting;
    std::optional<GroupRank> group_rank = {};  // in that round
    RankRange ranks = {};
    bool leaving = false;
    std::string dismissed = {};
    bool hosts = false;  // its cpprun is the coordinator, too
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::string founder;  // the address whose node was the first
  std::string owner;    // whose secret that node held; empty: nobody's
  RoundNumber round{};  // the one that was sealed last
  Round::Phase phase = Round::Phase::gathering;
  int world_size = 0;
  // That have a seat in that round, or wait for the next. Where there are none there is nothing to
  // go on with.
  std::vector<Node> nodes;
  TimePoint sealed_at{};
  std::optional<TimePoint> since = {};  // of the phase, or of the end
  RestartState restarts = {};
  RoundEnd round_end = {};
  std::optional<TimePoint> pause_until = {};
  std::string why_again = {};
  // When the coordinator that wrote this record was alive last, as far as its successor knows. Not
  // part of the bytes.
  std::optional<TimePoint> alive = {};
  // How many votes a standby needs to go on with it; 0: there is none, or it is of an older version
  // of cpprun, and more than half of the nodes are needed.
  std::size_t votes_needed = 0;
  Duration patience{};  // that its nodes may have been told of; travels in milliseconds
  std::optional<link::Finish> finish = {};
  RoundHistory::Kept history = {};
  TimeLedger::Kept time = {};
  std::vector<Exclusions::Entry> exclusions = {};
  std::vector<Dismissals::Entry> dismissals = {};

  const std::string& job() const { return nodes.front().join.job; }
};

}  // namespace cpprun
