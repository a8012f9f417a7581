// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A coordinator with its ports that is one of several, as the leader election sees it. It is
// implemented by CoordinatorServer and by the simulator.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/held_messages.h"
#include "rendezvous/coordinator/io/store_logs.h"

namespace cpprun {

class ReplicatedCoordinator {
 public:
  virtual ~ReplicatedCoordinator() = default;

  // Becomes the leader, with the jobs that are recovered next.
  virtual void lead(link::Members members) = 0;
  // All jobs are recovered: the agents that waited can join.
  virtual void let_in() = 0;
  virtual void change_members(std::vector<std::string> places) = 0;
  // Stops leading, or keeps following another leader. Returns the records of its jobs, and keeps
  // the stores of running rounds as replicas.
  virtual std::map<std::string, std::string> follow(const Coordinator::Follows& follows) = 0;
  // Sends nothing from `until` on; nothing: no limit. If `until` is extended after it has passed,
  // links that missed a message are closed, and their agents ask again.
  virtual void leader_until(std::optional<TimePoint> until) = 0;
  virtual std::optional<TimePoint> speaks_until() const = 0;
  virtual std::size_t link_count() const = 0;

  // wait_for() delays later messages to nodes and workers until kept() reports that number.
  virtual void wait_for(CommitSource source, std::uint64_t number) = 0;
  virtual void kept(CommitSource source, std::uint64_t through) = 0;
  // The logs of the stores of jobs whose workers connect through links.
  virtual StoreLogs& logs() = 0;

  // The records of all jobs, by name, and of excluded hosts.
  virtual std::map<std::string, std::string> records() const = 0;
  // These hosts get no seat in future jobs.
  virtual void recover_hosts(std::vector<Exclusions::Entry> hosts) = 0;
  // Resumes a job from its record, with the replica of its store if that is complete and of the
  // same round.
  virtual void recover_with_replica(JobRecord record) = 0;
  // The leader's log of a job's store. After an error the log is unusable, and the replica is
  // discarded.
  virtual Result<void> begin_replica(const std::string& job, RoundNumber round) = 0;
  virtual Result<void> add_to_replica(const std::string& job, std::string_view bytes) = 0;
  virtual void replica_is_whole(const std::string& job) = 0;
  virtual void end_replica(const std::string& job) = 0;
  // Discards all replicas except those of jobs with a record in `but_of`.
  virtual void end_replicas(const std::map<std::string, std::string>& but_of) = 0;
};

}  // namespace cpprun
