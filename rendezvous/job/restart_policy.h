// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether there is another attempt after a failure, and when. One budget for the whole job:
//
//   --max-restarts      so many restarts
//   --restart-window    of which those longer ago than this no longer count: the budget refills
//   --restart-backoff   the pause before a restart, doubled with each that still counts, to at most
//                       bounds::backoff_max (or the pause itself, where it is longer)
//   --no-restart-codes  ends that no restart will cure
//
// With a pause or a window a job could go on failing for ever, so there a rank that dies within a
// second of its start three times in a row ends it. Without them the budget alone decides, as with
// torchrun.

#include <deque>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/job_terms.h"

namespace cpprun {

class RestartPolicy {
 public:
  struct Verdict {
    bool restart = false;
    Duration pause{};    // before the next attempt
    std::string reason;  // a clause: why not, or which restart it is
    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  // An attempt has failed with `root`, so long after it was sealed.
  struct End {
    link::Failure root;
    Duration life{};
  };

  explicit RestartPolicy(const JobTerms& terms);

  // Takes the restart from the budget if there is one.
  Verdict judge(TimePoint now, const End& end);
  // TORCHELASTIC_RESTART_COUNT: restarts over the job's whole life.
  int restarts_used() const { return restarts_used_; }
  // What is left of the budget then.
  int restarts_left(TimePoint now) const;

 private:
  bool loops(const End& end);
  Duration next_pause() const;

  int restarts_max_;
  Duration backoff_;
  Duration window_;
  std::vector<int> no_restart_codes_;
  int restarts_used_ = 0;
  std::deque<TimePoint> counted_;   // restarts that still count; never more than restarts_max_
  std::optional<Rank> early_rank_;  // who died early last time
  int early_deaths_ = 0;            // of that rank, in a row
};

}  // namespace cpprun
