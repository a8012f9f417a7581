// SPDX-License-Identifier: BSD-3-Clause
// Invariants of an agent between two events. The planted bugs in tests/sim violate them.

#include "launcher/agent/agent.h"

namespace cpprun {

std::optional<std::string> Agent::check() const {
  if (phase_ == Phase::over) return std::nullopt;
  if (in_round() && !sealed_) return "it is in a round that was never sealed";
  if (phase_ == Phase::running && !supervisor_) return "it runs workers without a supervisor";
  if (phase_ == Phase::joining && !link_.up()) return "it waits for a seat and has no link";
  if (seat_lost_ && phase_ != Phase::running) return "it has lost its seat and runs nothing";
  if (seat_lost_ && link_.up()) return "it has lost its seat and keeps its link";
  if (speaks_for_workers_ && link_.in_doubt()) {
    return "it confirms its workers to a master whose lease may have expired";
  }
  if (settled_ && pending_failures_.complete())
    return "its workers are gone and it reports nothing";
  if (phase_ == Phase::dialing && !seat_deadline_) return "it dials without a deadline";
  if (phase_ != Phase::running) return std::nullopt;
  return supervisor_->check();
}

}  // namespace cpprun
