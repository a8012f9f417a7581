// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What became of every round of a job, for whoever looks at it while it runs: which failure broke
// it, and what followed. Bounded, for a job may restart for weeks: the first rounds, which tell how
// it began, and the last; and counts of all. Decides nothing.

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/job/round_end.h"

namespace cpprun {

struct RoundRecord {
  RoundNumber round;
  int restart = 0;  // restarts used when it was sealed
  TimePoint began{};
  std::optional<TimePoint> ended = {};  // nothing: it runs, or drains
  std::string reason = {};              // why its workers were ended; empty where they were not
  std::optional<link::Failure> root = {};
  // What followed from it: a few, and how many there were.
  std::vector<link::Consequence> consequences = {};
  std::size_t consequence_count = 0;
  friend bool operator==(const RoundRecord&, const RoundRecord&) = default;
};

// What a round that breaks looks like by now.
void tell_end(RoundRecord& record, const RoundEnd& end);

class RoundHistory {
 public:
  // All of it, for whoever keeps it longer than its coordinator lives.
  struct Kept {
    std::vector<RoundRecord> first = {};
    std::deque<RoundRecord> last = {};
    std::size_t left_out = 0;
    std::map<std::string, std::size_t> failures = {};
    std::map<std::string, std::size_t> restarts = {};
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  RoundHistory() = default;
  explicit RoundHistory(Kept kept) : kept_(std::move(kept)) {}
  const Kept& kept() const { return kept_; }

  void sealed(TimePoint now, RoundNumber round, int restart);
  // The round that was sealed last is over. `restarted`: that has cost a restart.
  void closed(TimePoint now, const RoundEnd& end, bool restarted);

  // What failed first in that round; nothing where nothing did, or where it is not kept.
  const link::Failure* root_of(RoundNumber round) const;
  // In the order of time, the one that runs among them.
  std::vector<RoundRecord> list() const;
  // Those between the first and the last that are not kept.
  std::size_t left_out() const { return kept_.left_out; }
  // Of all rounds: first failures, and restarts, by the id of their cause; "unknown" where nothing
  // is known of it, "other" for what exceeds bounds::causes_counted_max.
  const std::map<std::string, std::size_t>& failures() const { return kept_.failures; }
  const std::map<std::string, std::size_t>& restarts() const { return kept_.restarts; }

 private:
  Kept kept_;
};

}  // namespace cpprun
