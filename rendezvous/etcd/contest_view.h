// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The keys of a contest in etcd (ContestKeys), and what one read of them shows (ContestView).

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/etcd/contest_values_json.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// Where in etcd one contest keeps what.
class ContestKeys {
 public:
  // "/cpprun/name/", or with something else in front. Why it cannot be, as a clause.
  static Result<ContestKeys> make(std::string_view name, std::string_view before = "/cpprun/");

  const std::string& prefix() const { return prefix_; }
  std::string leader() const { return prefix_ + "leader"; }
  std::string synced() const { return prefix_ + "synced"; }
  std::string cluster() const { return prefix_ + "cluster"; }
  // Changes with every change of the leader's, so that one that is late is known as such.
  std::string turn() const { return prefix_ + "turn"; }
  std::string record(std::string_view name) const { return records() + std::string(name); }
  std::string records() const { return prefix_ + "jobs/"; }
  // Behind the last record.
  std::string records_end() const { return prefix_ + "jobs0"; }
  // Nothing: it is the key of something else.
  std::optional<std::string> name_of_record(std::string_view key) const;

 private:
  explicit ContestKeys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string prefix_;
};

// A contest as one linearizable read of etcd shows it, and what follows from that for somebody who
// wants to lead.
struct ContestView {
  struct Leader {
    etcd::Revision epoch = 0;  // grows from leader to leader: etcd counts it
    etcd::LeaseId lease = etcd::no_lease;
    LeaderCard card;
    friend bool operator==(const Leader&, const Leader&) = default;
  };
  etcd::Header header;
  std::optional<Leader> leader = {};
  std::optional<Synced> synced = {};  // nothing: nobody has led before
  etcd::Revision synced_changed = 0;
  std::string cluster = {};  // empty: nobody has led before
};

// What has to be asked for it.
std::vector<etcd::Operation> view_reads(const ContestKeys& keys);
// Of the answers to these alone. An error: a value is none of ours.
Result<ContestView> read_view(const ContestKeys& keys, const etcd::Header& header,
                              std::span<const etcd::Outcome> outcomes);

// What somebody knows from before.
struct ContestMemory {
  std::string cluster = {};  // empty: nothing
  etcd::Revision epoch = 0;  // the highest that it has ever seen
};
// Why this is not the etcd of before, or not as it was; a sentence with what would help.
std::optional<std::string> objection_to(const ContestView& view, const ContestMemory& memory,
                                        const ContestKeys& keys);

// Whether whoever led before has left nothing, or somebody has begun anew since: for contests that
// end (ContestOptions::leaves_nothing).
bool begins_anew(const ContestView& view, const ContestMemory& memory);

// How long a candidate waits after it has first seen that nobody leads.
//
// Whoever is synced, or was named by the last leader, comes before all others by one lease. And
// nobody comes before the last leader's right has ended by its own clock. Its lease says so, with
// one exception: an etcd whose own leader was stopped for a while, and goes on, may end leases that
// were renewed with the next one (its issue 15247; 3.4.23 does). It can do so with no lease that
// was granted since etcd has chosen its last leader, and of others the full time has to pass.
Duration wait_to_run(const ContestView& view, const std::string& name, Duration ttl);

}  // namespace cpprun
