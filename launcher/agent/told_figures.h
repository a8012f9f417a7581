// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What this node tells of its workers while somebody looks at the job, and which of them fit: those
// whose state has changed first, the others in turn. Remembers what it saw last, because a rate is
// the difference of two looks.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "launcher/workers/beat_watch.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// What can be seen of one worker from outside.
struct WorkerSight {
  LocalRank local_rank;
  std::optional<BeatReading> beat = {};
  std::optional<std::int64_t> resident_kib = {};
  std::optional<Duration> cpu = {};  // since it was started
  std::optional<Duration> last_words = {};
  friend bool operator==(const WorkerSight&, const WorkerSight&) = default;
};

class ToldFigures {
 public:
  // A new round: what was seen was of others.
  void begin() { memories_.clear(); }
  // Somebody looks, and for so long every change is to be told. Both say whether to look at the
  // workers now: one look at a time, which sees whatever has changed until it is made.
  bool watch(TimePoint now, Duration length);
  bool changed(TimePoint now);
  // The look is made.
  link::Status tell(TimePoint now, RoundNumber round, const std::vector<WorkerView>& workers,
                    const std::vector<WorkerSight>& sights);
  // It was for nothing.
  void nothing_seen() { is_looking_ = false; }

 private:
  struct Memory {
    WorkerState told = WorkerState::starting;
    std::int64_t step = 0;
    TimePoint beat{};
    std::optional<std::int64_t> rate = {};  // thousandths of a step per second
    Duration cpu{};
    TimePoint looked{};
  };
  link::WorkerFigures figures_of(TimePoint now, const WorkerView& view, const WorkerSight& sight);
  std::vector<std::size_t> in_turn(const std::vector<WorkerView>& workers) const;

  TimePoint until_{};
  bool is_looking_ = false;
  std::map<LocalRank, Memory> memories_;
  std::size_t next_ = 0;  // whose turn it is
};

}  // namespace cpprun
