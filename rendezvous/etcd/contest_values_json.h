// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What stands in etcd under a contest's keys, but for the records, which are the owner's. Read by
// people with etcdctl, and by the next version of this program: what it does not know it leaves
// out.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// Under "leader", for as long as its lease lives.
struct LeaderCard {
  std::string name;
  std::string card;  // the owner's: how the leader is reached
  friend bool operator==(const LeaderCard&, const LeaderCard&) = default;
};

// Under "synced", for good. Whoever leads writes it, first when it wins, and it says what the next
// one has to know of it.
struct Synced {
  std::vector<std::string> names;  // who has everything; the one that leads among them
  // Who had everything before, while the one that has won does not lead yet: if it never does, they
  // have it still.
  std::optional<std::vector<std::string>> before = {};
  etcd::Revision epoch = 0;  // of whom wrote it; 0: of whoever wrote it by winning
  // etcd's own, no later than the lease was granted: see leader_lease.h.
  std::uint64_t term = 0;
  Duration ttl{};          // of the lease
  bool is_vacant = false;  // the one that led decides nothing any more, and has said so
  std::string heir = {};   // who is to come first then; empty: whoever is synced
  friend bool operator==(const Synced&, const Synced&) = default;

  const std::vector<std::string>& complete() const { return before ? *before : names; }
};

std::string to_json(const LeaderCard& leader);
std::string to_json(const Synced& synced);
// What is wrong with it, as a clause about that value.
Result<LeaderCard> read_leader_card(std::string_view text);
Result<Synced> read_synced(std::string_view text);

}  // namespace cpprun
