// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The nodes of a job (JobNodes), and an agent that asks for a seat (Caller).

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/job_record.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// The agent that joins: its numeric address, whether it runs in the coordinator's own process, and
// the owner of the secret that it has proven to hold.
struct Caller {
  LinkId link;
  std::string peer;
  bool local = false;
  std::string owner = {};  // empty: no secret; agents with the same owner share their jobs
};

// The nodes of a job: those that are here (Round), and the hosts and agents that get no seat. Knows
// how a node joins, comes back on a newer link, is evicted, and is asked for the stats of its
// workers. Does not know what follows for the round: a call returns whether something changed.
class JobNodes {
 public:
  using Actions = coordinator::Actions;

  // `lease`: silence after which a node is lost.
  explicit JobNodes(Duration lease) : round_(lease) {}
  // The nodes of a record. They are not connected yet, and have one lease to reconnect. Until then
  // their links are `first` and the following ones.
  JobNodes(TimePoint now, const JobRecord& record, Duration lease, LinkId first);
  void keep(JobRecord& record) const;

  Round& round() { return round_; }
  const Round& round() const { return round_; }
  Exclusions& exclusions() { return exclusions_; }

  // --- nodes that join

  // Rejects agents that were asked to leave but did not receive that, and nodes of excluded hosts,
  // for which the end of the job is no longer news. Returns false if the node may join.
  bool reject(TimePoint now, const Caller& caller, const link::Join& join, bool is_over,
              Actions& actions);
  // What to send to a node that asks for the node rank of another; nothing if its rank is free.
  std::optional<link::Waiting> wait_for_seat(const link::Join& join) const;
  // `further_peers`: of the same agent, from an earlier seat.
  void enter(TimePoint now, const Caller& caller, const link::Join& join,
             std::vector<std::string> further_peers);
  // The agent's link broke and it is back in time, on a newer link. Its workers noticed nothing.
  void resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
              Actions& actions);
  // The node whose rank was claimed is alive: rejects the claimant. Returns false if there is none.
  bool reject_claimant(LinkId holder, const JobTerms& terms, Actions& actions);
  // No round is sealed until it is known whether these nodes are alive.
  bool waits_for_links() const { return round_.away() > 0 || round_.claims() > 0; }
  // The agent also connects from that address, so its workers are admitted from there. Returns
  // false if there is no such agent.
  bool speaks_from(const link::WhoHosts& agent, const std::string& peer);

  // --- nodes that have to leave

  std::vector<LinkId> nodes_of_host(const std::string& host) const;
  // By a node's rank, if the text is a number that a node has as its rank; otherwise by its host.
  std::vector<LinkId> nodes_called(const std::string& name) const;
  // Why these nodes cannot be asked to leave; nothing if they can.
  std::optional<std::string> objection_to_evict(const std::vector<LinkId>& links, int nodes_min,
                                                bool has_standby) const;
  // These nodes get no other seat. Returns those that were not leaving before.
  std::vector<LinkId> evict(const std::vector<LinkId>& links, const std::string& why);

  // --- stats of workers, for a client that looks at the job

  // A client looks: for a while, nodes are asked, each at its next heartbeat. So the question
  // causes no extra wake-up, and spreads over time as heartbeats do.
  void look(TimePoint now);
  // How long the node is to report every change, if it is time to ask it; otherwise 0.
  Duration ask_for_stats(TimePoint now, LinkId link);

 private:
  Round round_;
  Exclusions exclusions_;
  EvictedNodes evicted_nodes_;
  std::optional<TimePoint> watched_until_;  // until when nodes are asked
};

}  // namespace cpprun
