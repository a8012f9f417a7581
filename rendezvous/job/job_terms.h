// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What all nodes of a job have to agree on, the sentences for those that do not, and whether a
// joining node can have a seat.

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/round.h"

namespace cpprun {

struct JobTerms {
  std::string id;
  int nodes_min = 1;
  int nodes_max = 1;
  RestartRules restarts = {};
  bool store_is_local = false;  // workers reach it through their agents' links
  friend bool operator==(const JobTerms&, const JobTerms&) = default;

  // Whether the job may go on with fewer or more nodes than it began with.
  bool elastic() const { return nodes_min < nodes_max; }
};

// The terms of a job that begins with this node.
JobTerms terms_of(const link::Join& join);

// Why a node with these flags cannot be part of this job. It names both sides, so that a reader on
// one machine knows what to change on which.
std::optional<std::string> disagreement(const JobTerms& terms, const link::Join& join);

// Whether a joining node can have a seat, or at least a place in the queue for one.

// What no genuine agent says: numbers that would break a round's arithmetic.
std::optional<std::string> impossible(const link::Join& join);

// For a node that has finished its part of a job nobody here knows: it asks how that job ended, and
// must not start another.
std::string unknown_round_of(const link::Join& join);

// That the node rank it came for is taken by that member.
std::string seat_taken_text(const JobTerms& terms, const Member& holder, const link::Join& join);

// Why it cannot; names both sides, and what to change.
std::optional<std::string> join_check(const JobTerms& terms, const Round& round, Duration lease,
                                      const link::Join& join);

}  // namespace cpprun
