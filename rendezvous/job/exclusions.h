// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Hosts (Exclusions) and agents (EvictedNodes) that get no seat in a job.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/result.h"

namespace cpprun {

// Hosts that get no seat in a job, why, and for how long. A host matches by its name or by any of
// its numeric addresses: those that a node reports (no node reports one to its own disadvantage),
// and the one it connects from. If several machines share an address, all of them match.
class Exclusions {
 public:
  struct Entry {
    std::string host;
    std::optional<TimePoint> until = {};
    std::string why = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  Exclusions() = default;
  // Restores saved entries, sorted by name.
  explicit Exclusions(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  const std::vector<Entry>& entries() const { return entries_; }

  // Excludes the host until `until`, or until the job is over if that is not set. `why` says who
  // asked for it and the reason. Replaces an existing entry of that host. Fails if there are too
  // many.
  Result<void> exclude(TimePoint now, const std::string& host, std::optional<TimePoint> until,
                       const std::string& why);
  // Returns false if the host was not excluded.
  bool include(TimePoint now, const std::string& host);
  // Why a node that connects from that address gets no seat, and for how much longer; nothing if it
  // may have one.
  std::optional<std::string> objection(TimePoint now, const link::Join& join,
                                       const std::string& peer);
  // "host-a, host-b"; empty if no host is excluded.
  std::string list(TimePoint now);

 private:
  void drop_old(TimePoint now);

  std::vector<Entry> entries_;  // at most bounds::exclusions_max, sorted by name
};

// Whether `host` is the name of the node's host, or an address that the node reports or connects
// from.
bool is_host_of(const std::string& host, const link::Join& join, const std::string& peer);

// Agents that were asked to leave a job. An agent whose link broke before it received that asks for
// a seat again; it then gets the same answer. A new cpprun on the same machine is another agent.
class EvictedNodes {
 public:
  struct Entry {
    std::string host;
    int pid = 0;
    std::uint32_t agent = 0;
    std::string why = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  EvictedNodes() = default;
  // Restores saved entries, oldest first.
  explicit EvictedNodes(const std::vector<Entry>& entries)
      : entries_(entries.begin(), entries.end()) {}
  std::vector<Entry> entries() const { return {entries_.begin(), entries_.end()}; }

  void add(const link::Join& agent, std::string why);
  // Why the agent was asked to leave. Null if it was not, or if bounds::dismissals_max others were
  // since.
  const std::string* find(const link::Join& agent) const;

 private:
  std::deque<Entry> entries_;  // the newest bounds::dismissals_max
};

}  // namespace cpprun
