// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why a round breaks, as far as it is known while its nodes still end their workers: what failed,
// who was asked to stop, or that only the membership changes. When nobody is left it says how a job
// without another round ends.

#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/failures.h"

namespace cpprun {

struct RoundEnd {
  std::string reason = {};  // completes "ending the workers: …"
  TimePoint at{};           // when the nodes were told, or the first was asked
  Failures failures = {};   // of the round, everybody's
  // Somebody leaves without whom the job does not go on: it was asked to stop, or gave up (no
  // signal).
  std::optional<link::Leave> stop = {};
  std::string why_no_other = {};  // who that is and why, where there is a `stop`
  bool change = false;            // who is here has changed, nothing failed yet

  // What the coordinator asked for itself: what ends badly later follows from that.
  bool polite() const { return change || stop; }
  // Somebody was asked to stop then, perhaps before we heard of it: what was told of later ends
  // followed from that. `why` is the reason of the break if nothing else is left.
  void polite_since(TimePoint asked, const std::string& why);
};

// The end of a job whose last round broke like that. Who was asked to stop and drags others along
// is no failure; a failure that came before the stop still is.
link::Finish finish_of(const RoundEnd& round_end);

}  // namespace cpprun
