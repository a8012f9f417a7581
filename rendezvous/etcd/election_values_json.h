// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The values under an election's keys, except for the records, which belong to the owner. They are
// read by people with etcdctl and by other versions of this program: unknown members are ignored.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// Under "leader", bound to the leader's lease.
struct LeaderCard {
  std::string name;
  std::string card;  // how clients reach the leader; opaque here
  friend bool operator==(const LeaderCard&, const LeaderCard&) = default;
};

// Under "synced", permanent. The leader writes it, first when it wins, for its successor.
struct Synced {
  std::vector<std::string> names;  // the synced members, including the leader
  // The synced members of the previous leader, until the winner leads. If it never does, they are
  // still the ones in sync.
  std::optional<std::vector<std::string>> before = {};
  etcd::Revision epoch = 0;  // of the writer; 0: written by the winning transaction
  // etcd's Raft term, no later than that of the grant: see leader_lease.h.
  std::uint64_t term = 0;
  Duration ttl{};          // of the lease
  bool is_vacant = false;  // the leader has resigned and decides nothing any longer
  std::string heir = {};   // its chosen successor; empty: any synced member
  friend bool operator==(const Synced&, const Synced&) = default;

  const std::vector<std::string>& complete() const { return before ? *before : names; }
};

std::string to_json(const LeaderCard& leader);
std::string to_json(const Synced& synced);
// The error is a clause about the value.
Result<LeaderCard> read_leader_card(std::string_view text);
Result<Synced> read_synced(std::string_view text);

}  // namespace cpprun
