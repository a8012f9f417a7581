// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Detects workers that stopped sending heartbeats. The heartbeat files of one node's workers are
// read only when a worker's next heartbeat is overdue. A worker that never sent a heartbeat is not
// checked. The files are not trusted blindly: a heartbeat is new if its count has changed, and its
// time must lie between the previous read and this one. A silent worker is read once more, shortly
// after.

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/config.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

// --beat-timeout=auto: this many times the slowest step seen, but at least beat_timeout_least, in
// which a large model is saved or evaluated.
inline constexpr int beat_timeout_steps = 10;
inline constexpr Duration beat_timeout_least = std::chrono::minutes(5);
// The pause before a silent worker is read again. If still silent, it counts as hung.
inline constexpr Duration beat_second_look = std::chrono::milliseconds(200);
// If a read is this late, cpprun was suspended or stopped, and so were the workers.
inline constexpr Duration beat_look_late = std::chrono::seconds(1);

// The content of one worker's heartbeat file. There is none before the first heartbeat.
struct HeartbeatReading {
  LocalRank local_rank;
  std::uint64_t beats = 0;
  TimePoint last{};        // time of the last heartbeat, by our clock
  std::uint64_t step = 0;  // in these four, 0: not reported
  std::uint64_t samples = 0;
  std::uint64_t checkpoint_step = 0;
  std::uint64_t total = 0;
  std::vector<link::Metric> metrics = {};
  std::optional<Duration> since_checkpoint = {};
  friend bool operator==(const HeartbeatReading&, const HeartbeatReading&) = default;
};

// The largest time since a checkpoint among the workers that report one. 0: none reports it.
Duration unsaved_of(const std::vector<HeartbeatReading>& readings);

// The highest step and checkpoint step of all readings.
link::Reached reached_of(const std::vector<HeartbeatReading>& readings);

class HeartbeatMonitor {
 public:
  struct Silent {
    LocalRank local_rank;
    Duration since_beat{};
    friend bool operator==(const Silent&, const Silent&) = default;
  };

  // How long steps take, for --beat-timeout=auto.
  struct StepTimes {
    Duration first{};  // time to the first heartbeat; used until a step was seen
    Duration slowest{};
    friend bool operator==(const StepTimes&, const StepTimes&) = default;
  };

  // No timeout: workers are not checked.
  explicit HeartbeatMonitor(std::optional<HeartbeatTimeout> timeout) : terms_(timeout) {}

  void started(TimePoint now, LocalRank local_rank);
  // The worker keeps its process in a new round. What it sent before is no heartbeat of this round,
  // in which it may wait for a long time until the others are ready.
  void remained(TimePoint now, LocalRank local_rank);
  void ended(LocalRank local_rank);
  // All workers are being stopped.
  void stop() { workers_.clear(), due_.reset(); }

  const StepTimes& step_times() const { return step_times_; }
  // Those that another monitor has seen.
  void learn(const StepTimes& times) { step_times_ = times; }

  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether it is time to read the files. If so, call heard() with the readings.
  bool take_due(TimePoint now);
  // The worker that has been silent longest, if any is hung.
  std::optional<Silent> heard(TimePoint now, const std::vector<HeartbeatReading>& readings);

  // The current timeout. It may depend on the steps seen so far.
  Duration timeout() const;

 private:
  struct Worker {
    LocalRank local_rank;
    TimePoint started{};
    std::uint64_t beats = 0;  // 0: no heartbeat yet
    TimePoint last{};         // last heartbeat; before the first one, the last read
    bool doubted = false;     // it was silent for too long at the last read
    bool remained = false;    // heartbeats before `started` are of an earlier round
  };

  void add(TimePoint now, Worker worker);
  void learn(Duration step);
  void hear(TimePoint now, Worker& worker, const HeartbeatReading& reading);
  void plan(TimePoint now);

  std::optional<HeartbeatTimeout> terms_;
  std::vector<Worker> workers_;  // the live workers
  StepTimes step_times_;
  TimePoint looked_{};
  bool slept_ = false;  // the read came late, so its result is ignored
  std::optional<TimePoint> due_;
};

}  // namespace cpprun
