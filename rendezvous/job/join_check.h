// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a node that comes can have a seat, or at least a place in the queue for one.

#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// What no agent says: numbers that would break the arithmetic of a round.
std::optional<std::string> impossible(const link::Join& join);

// For a node that has done its part in a job of which nobody here knows anything: it asks how that
// ended, and must not begin another.
std::string unknown_round_of(const link::Join& join);

// A sentence when it cannot; it names both sides, and what to change.
std::optional<std::string> join_check(const JobTerms& terms, const Round& round, Duration lease,
                                      const link::Join& join);

}  // namespace cpprun
