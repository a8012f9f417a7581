// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an agent says of itself when it asks for a seat, and of its workers while somebody looks.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/beat_watch.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// What the agent must know of its machine, all of it known before it starts.
struct AgentFacts {
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;         // random, as link::Join has it
  bool hosts_coordinator = false;  // then the link is a call within this process and cannot break
  ResolvedProgram program;
  NodeFacts node;                            // its `sockets` are filled in once the link is up
  std::vector<NetworkInterface> interfaces;  // of this machine
};

struct JoinState {
  RoundNumber after{};      // the last round it took part in, 0 for a newcomer
  bool idle = false;        // nobody of that round is alive here
  bool done = false;        // because all of them ended with 0
  link::AgentTime sent{};   // now, by our clock
  RoundNumber vote{};       // as link::Join has it
  std::uint64_t epoch = 0;  // as well
  bool fresh = false;       // it has never had a seat
};

// Names as many of this machine's addresses as its frame has room for.
link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state);

// What can be seen of one worker from outside.
struct WorkerSight {
  LocalRank local_rank;
  std::optional<BeatReading> beat = {};
  std::optional<std::int64_t> resident_kib = {};
  std::optional<Duration> cpu = {};  // since it was started
  std::optional<Duration> last_words = {};
  friend bool operator==(const WorkerSight&, const WorkerSight&) = default;
};

// What this node tells of its workers while somebody looks at the job, and which of them fit: those
// whose state has changed first, the others in turn. Remembers what it saw last, because a rate is
// the difference of two looks.
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
