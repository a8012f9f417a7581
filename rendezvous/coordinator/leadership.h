// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who leads, as a coordinator that need not be the leader knows it: the standby of one job
// (StandbyElection), and one of several daemons (DaemonRole).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/coordinator/job_table.h"
#include "rendezvous/job/job.h"

namespace cpprun {

// The standby of a job: it has the record that the job's coordinator replicates to it, collects the
// votes of the nodes that have lost that coordinator, and is elected when there are enough. The
// scheme is a lease for each node (Gray and Cheriton, 1989) and a majority of the nodes; see
// docs/states.md, "Who leads".
class StandbyElection {
 public:
  // The latest record. The job's nodes count as links from `first_link` on until they connect here.
  void update(const JobRecord& record, LinkId first_link);
  bool has_record() const { return record_.has_value(); }
  // The agent in this process votes for this standby in the round of `own.vote`. Without a vote it
  // follows the coordinator.
  void stand(const link::Join& own) { own_ = own; }
  bool stands() const { return own_.vote != RoundNumber{}; }

  // An agent asks this standby for a seat. Returns why it must not wait here; empty if it may.
  std::string objection_to(const link::Join& join);
  // It waits for the result. Replaces what the same agent sent through an older link.
  void add(const Caller& caller, const link::Join& join);
  void close(LinkId link);
  // Removes and returns the agents that wait. Their votes are not used.
  std::vector<JoinRequest> dismiss() { return std::exchange(asked_, {}); }

  bool is_elected() const;
  // For an agent that waits. Requires a record.
  std::string waiting_text() const;

  // What the standby resumes as the leader.
  struct Elected {
    JobRecord record;
    LinkId first_link;
    std::optional<LinkId> host;      // the node that hosted the other coordinator
    std::vector<JoinRequest> asked;  // agents that wait for a reply
  };
  // Requires a record. The object is not used after this.
  Elected take();

 private:
  std::size_t votes() const;
  bool is_vote(const link::Join& join) const;
  bool is_outdated(const link::Join& join);

  std::optional<JobRecord> record_;
  LinkId first_link_{};
  link::Join own_;
  std::vector<JoinRequest> asked_;
  // For each agent of the round, by host, pid and agent number: when the latest join received here
  // was sent.
  std::map<std::tuple<std::string, int, std::uint32_t>, link::AgentTime> asked_at_;
};

// What one of several daemons is. One of them leads and has all jobs. The others have none and
// redirect agents to the leader. The election happens elsewhere. An epoch that only grows
// distinguishes the current leader from earlier ones. A daemon that is alone, and the coordinator
// of one job, neither leads nor follows.
class DaemonRole {
 public:
  // Another daemon leads, at the given address, or no leader is known.
  struct Follows {
    std::string reason;  // a clause for agents that connect
    std::string address = {};
    int port = 0;
    // This daemon is about to become the leader. Agents wait until it does, or until the next
    // Follows.
    bool is_about_to_lead = false;
    bool is_planned = false;  // an operator asked for it
  };

  explicit DaemonRole(bool follows) {
    if (follows) follow({"the leader is not known yet"});
  }

  void lead(const link::Members& members) {
    following_.reset();
    members_ = members;
  }
  void follow(const Follows& follows) {
    members_.reset();
    following_ = follows;
  }
  // Nothing if it does not follow.
  const std::optional<Follows>& following() const { return following_; }
  // The epoch in which it leads, and what agents are sent. Nothing if it does not lead.
  const std::optional<link::Members>& members() const { return members_; }
  // Returns false if it does not lead, or if these are the places already.
  bool change_addresses(const std::vector<std::string>& places);

  bool is_about_to_lead() const { return following_ && following_->is_about_to_lead; }
  // Why an agent cannot join here, and where it can; nothing if it can.
  std::optional<link::NotLeading> objection_to(const link::Join& join) const;

  // --- agents that wait for this daemon to lead ---
  void add_waiting(const Caller& caller, const link::Join& join) {
    waiting_.push_back({caller, join});
  }
  std::vector<JoinRequest> take_waiting() { return std::exchange(waiting_, {}); }

  // --- links whose agents can switch to another daemon ---
  void add_switching(LinkId link) { switching_.insert(link); }
  const std::unordered_set<LinkId>& switching() const { return switching_; }

  void close(LinkId link);

 private:
  // Invariant: at most one of the two is set.
  std::optional<Follows> following_;
  std::optional<link::Members> members_;
  std::vector<JoinRequest> waiting_;
  std::unordered_set<LinkId> switching_;
};

}  // namespace cpprun
