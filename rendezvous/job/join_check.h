// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether a joining node can have a seat, or at least a place in the queue for one.

#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/round.h"

namespace cpprun {

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
