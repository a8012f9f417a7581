// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Hosts (Exclusions) and agents (Dismissals) that get no seat in a job.

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

// Which hosts get no seat in a job, why, and for how long. A host is meant by its name or by any of
// its numeric addresses: by what a node says of itself, which nobody says to his own harm, and by
// where it comes from. Behind one address there may be several machines; then all of them are
// meant.
class Exclusions {
 public:
  struct Entry {
    std::string host;
    std::optional<TimePoint> until = {};
    std::string why = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  Exclusions() = default;
  // As they were kept: by name.
  explicit Exclusions(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  const std::vector<Entry>& entries() const { return entries_; }

  // Until then; nothing: for as long as the job is there. `why`: who did it and for what. A host
  // that is excluded already is from now on excluded as said here. Fails where there are too many.
  Result<void> exclude(TimePoint now, const std::string& host, std::optional<TimePoint> until,
                       const std::string& why);
  // False: it was not excluded.
  bool include(TimePoint now, const std::string& host);
  // Why a node that comes from that address gets no seat, and how long still; nothing: it may.
  std::optional<std::string> objection(TimePoint now, const link::Join& join,
                                       const std::string& peer);
  // "host-a, host-b"; empty where none is excluded.
  std::string list(TimePoint now);

 private:
  void drop_old(TimePoint now);

  std::vector<Entry> entries_;  // no more than bounds::exclusions_max, by name
};

// Whether that is what a node's host is called, or one of the addresses from which it speaks.
bool is_host_of(const std::string& host, const link::Join& join, const std::string& peer);

// The agents that were asked to leave a job. One whose link broke before it heard so asks for a
// seat as if nothing had been: it is told again. A new cpprun on the same machine is another agent.
class Dismissals {
 public:
  struct Entry {
    std::string host;
    int pid = 0;
    std::uint32_t agent = 0;
    std::string why = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  Dismissals() = default;
  // As they were kept, the oldest first.
  explicit Dismissals(const std::vector<Entry>& entries)
      : entries_(entries.begin(), entries.end()) {}
  std::vector<Entry> entries() const { return {entries_.begin(), entries_.end()}; }

  void add(const link::Join& agent, std::string why);
  // Why that agent was asked to leave; null: it was not, or very many were since.
  const std::string* find(const link::Join& agent) const;

 private:
  std::deque<Entry> entries_;  // the last bounds::dismissals_max
};

}  // namespace cpprun
