// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The keys of an election in etcd (ElectionKeys), the values under them, and the state that one
// read of them shows (ElectionView).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// The keys of one election.
class ElectionKeys {
 public:
  // The prefix is "/cpprun/NAME/". Fails with a clause that says why the name is invalid.
  static Result<ElectionKeys> make(std::string_view name);

  const std::string& prefix() const { return prefix_; }
  std::string leader() const { return prefix_ + "leader"; }
  std::string synced() const { return prefix_ + "synced"; }
  std::string cluster() const { return prefix_ + "cluster"; }
  // Written with every change of the leader, so that a delayed change is detected.
  std::string turn() const { return prefix_ + "turn"; }
  std::string record(std::string_view name) const { return records() + std::string(name); }
  std::string records() const { return prefix_ + "jobs/"; }
  // The end of the range of records.
  std::string records_end() const { return prefix_ + "jobs0"; }
  // Empty if the key is not that of a record.
  std::optional<std::string> name_of_record(std::string_view key) const;

 private:
  explicit ElectionKeys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string prefix_;
};

// The values under the keys, except for the records, which belong to the owner. They are read by
// people with etcdctl and by other versions of this program: unknown members are ignored.

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
  Duration ttl{};              // of the lease
  bool is_vacant = false;      // the leader has resigned and decides nothing any longer
  std::string successor = {};  // its chosen successor; empty: any synced member
  friend bool operator==(const Synced&, const Synced&) = default;

  const std::vector<std::string>& complete() const { return before ? *before : names; }
};

std::string to_json(const LeaderCard& leader);
std::string to_json(const Synced& synced);
// The error is a clause about the value.
Result<LeaderCard> read_leader_card(std::string_view text);
Result<Synced> read_synced(std::string_view text);

// The election as one linearizable read of etcd shows it, and what follows from it for a candidate.
struct ElectionView {
  struct Leader {
    etcd::Revision epoch = 0;  // increases from leader to leader; it is an etcd revision
    etcd::LeaseId lease = etcd::no_lease;
    LeaderCard card;
    friend bool operator==(const Leader&, const Leader&) = default;
  };
  etcd::Header header;
  std::optional<Leader> leader = {};
  std::optional<Synced> synced = {};  // empty: there was no leader before
  etcd::Revision synced_changed = 0;
  std::string cluster = {};  // empty: there was no leader before
};

// The reads for it.
std::vector<etcd::Operation> view_reads(const ElectionKeys& keys);
// From the results of exactly these reads. Fails if a value was not written by this program.
Result<ElectionView> read_view(const ElectionKeys& keys, const etcd::Header& header,
                               std::span<const etcd::Outcome> outcomes);

// What a candidate remembers.
struct ElectionMemory {
  std::string cluster = {};  // empty: nothing
  etcd::Revision epoch = 0;  // the highest seen so far
};
// Why etcd is not the remembered one, or has lost data; a sentence with a hint. Empty: it is
// consistent.
std::optional<std::string> objection_to(const ElectionView& view, const ElectionMemory& memory,
                                        const ElectionKeys& keys);

// Whether the previous leader left nothing, or a new cluster was started since. For elections whose
// keys are deleted at the end (ElectionOptions::leaves_nothing).
bool begins_anew(const ElectionView& view, const ElectionMemory& memory);

// How long a candidate waits after it first sees that there is no leader.
//
// Synced members, or the successor named by the last leader, come one lease before all others. No
// candidate comes before the last leader's lease has ended by the leader's own clock. The end of
// the lease in etcd implies that, with one exception: an etcd leader that was suspended and then
// resumes may expire leases that were renewed with its successor (etcd issue 15247; 3.4.23 does).
// It cannot do so with leases granted after the election of etcd's current leader. For all others
// the full time has to pass.
Duration wait_to_run(const ElectionView& view, const std::string& name, Duration ttl);

}  // namespace cpprun
