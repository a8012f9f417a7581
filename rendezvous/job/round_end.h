// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why a round breaks, as far as is known while its nodes still end their workers: what failed, who
// was asked to stop, or that only the membership changes. When nobody is left it says how a job
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
  // A node leaves that the job cannot do without: it was asked to stop, or gave up (no signal).
  std::optional<link::Leave> stop = {};
  std::string why_no_other = {};  // who that is and why, where there is a `stop`
  bool change = false;            // who is here has changed, nothing failed yet
  bool ordered = false;           // or somebody has asked for that
  link::Reached reached = {};     // the farthest of its workers, as far as their beats say

  // The coordinator itself asked for the end, so later bad ends follow from that.
  bool polite() const { return change || stop; }
  void come_to(const link::Reached& far);
  // A node was asked to stop at that time, perhaps before we heard of it: ends that were reported
  // as later follow from it. `why` becomes the reason if nothing else is left.
  void polite_since(TimePoint asked, const std::string& why);
  friend bool operator==(const RoundEnd&, const RoundEnd&) = default;
};

// The end of a job whose last round broke like that. Being asked to stop, and dragging others
// along, is no failure; a failure before the stop still is.
link::Finish finish_of(const RoundEnd& round_end);

}  // namespace cpprun
