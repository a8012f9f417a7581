// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A coordinator with its ports that is one of several, as whoever decides which of them leads has
// it: CoordinatorServer, or what a simulated world has in its place.

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

class LedCoordinator {
 public:
  virtual ~LedCoordinator() = default;

  // It leads from now on, with jobs that are recovered next.
  virtual void lead(link::Members members) = 0;
  // With all of them there: whoever has waited for it is heard.
  virtual void let_in() = 0;
  virtual void change_members(std::vector<std::string> places) = 0;
  // It does not, or no more. What there is of its jobs is left as it is, and comes back: the
  // records here, the stores of rounds that run as replicas.
  virtual std::map<std::string, std::string> follow(const Coordinator::Follows& follows) = 0;
  // From then on nobody is told anything; nothing: without an end. Where that has come and goes on
  // after all, whoever has missed something asks anew.
  virtual void speak_until(std::optional<TimePoint> until) = 0;
  virtual std::optional<TimePoint> speaks_until() const = 0;
  virtual std::size_t link_count() const = 0;
  virtual std::optional<std::uint64_t> epoch() const = 0;

  // What nodes and workers are told from now on waits until that was kept; and what was kept.
  virtual void wait_for(Keeping keeping, std::uint64_t number) = 0;
  virtual void kept(Keeping keeping, std::uint64_t through) = 0;
  // Of the stores of jobs whose workers come through links.
  virtual StoreLogs& logs() = 0;

  // Of all its jobs, by their names, and of excluded hosts, as they are kept.
  virtual std::map<std::string, std::string> records() const = 0;
  // These get no seat in jobs to come.
  virtual void recover_hosts(std::vector<Exclusions::Entry> hosts) = 0;
  // A job goes on with that, and with the replica of its store, where that is whole and of that
  // round.
  virtual void recover_with_replica(JobRecord record) = 0;
  // What the one that leads writes down of a job's store. An error: it leads nowhere, and what
  // there was of it is gone.
  virtual Result<void> begin_replica(const std::string& job, RoundNumber round) = 0;
  virtual Result<void> add_to_replica(const std::string& job, std::string_view bytes) = 0;
  virtual void replica_is_whole(const std::string& job) = 0;
  virtual void end_replica(const std::string& job) = 0;
  // All but those of jobs that have a record there.
  virtual void end_replicas(const std::map<std::string, std::string>& but_of) = 0;
};

}  // namespace cpprun
