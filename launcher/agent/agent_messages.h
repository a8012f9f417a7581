// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an agent reports about itself when it joins, and about its workers while a client watches.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/heartbeat_monitor.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// What the agent knows about its machine. All of it is known before the agent starts.
struct AgentFacts {
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;         // random; see link::Join
  bool hosts_coordinator = false;  // if so, the link is a call within this process and cannot break
  ResolvedProgram program;
  NodeFacts node;                            // `sockets` is filled in once the link is up
  std::vector<NetworkInterface> interfaces;  // of this machine
};

struct JoinState {
  RoundNumber after{};      // the last round it took part in; 0 for a newcomer
  bool idle = false;        // no worker of that round is alive here
  bool done = false;        // idle because all workers exited with 0
  link::AgentTime sent{};   // now, by our clock
  RoundNumber vote{};       // see link::Join
  std::uint64_t epoch = 0;  // see link::Join
  bool fresh = false;       // it has never had a seat
};

// Includes as many of this machine's addresses as fit in the frame.
link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state);

// What can be observed of one worker from outside.
struct WorkerSight {
  LocalRank local_rank;
  std::optional<HeartbeatReading> beat = {};
  std::optional<std::int64_t> resident_kib = {};
  std::optional<Duration> cpu = {};  // since the worker was started
  std::optional<Duration> last_words = {};
  friend bool operator==(const WorkerSight&, const WorkerSight&) = default;
};

// Reports worker statistics while a client watches the job. If they do not all fit into one frame,
// workers whose state changed go first and the others take turns. Keeps the previous samples,
// because a rate is the difference of two samples.
class WorkerStatsReporter {
 public:
  // A new round: forget the samples of the previous workers.
  void begin() { memories_.clear(); }
  // watch(): a client watches, so report every change for `length`. changed(): a worker's state
  // changed. Both return whether to sample the workers now. Only one sample is pending at a time;
  // it covers all changes up to when it is taken.
  bool watch(TimePoint now, Duration length);
  bool changed(TimePoint now);
  // The sample has arrived; returns the message to send.
  link::Status tell(TimePoint now, RoundNumber round, const std::vector<WorkerView>& workers,
                    const std::vector<WorkerSight>& sights);
  // The sample was discarded.
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
  link::WorkerStats figures_of(TimePoint now, const WorkerView& view, const WorkerSight& sight);
  std::vector<std::size_t> in_turn(const std::vector<WorkerView>& workers) const;

  TimePoint until_{};
  bool is_looking_ = false;
  std::map<LocalRank, Memory> memories_;
  std::size_t next_ = 0;  // the next worker in turn
};

}  // namespace cpprun
