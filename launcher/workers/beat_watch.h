// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who has stopped beating? The heartbeats of one node's workers, read when somebody's next beat is
// overdue and no oftener. Only a worker that has beaten is held to it. What the files say is not
// believed blindly: a beat is new when its count has changed, and it was made between the look
// before and this one. Whoever is found silent is looked at once more, a moment later.

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/config.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// --beat-timeout=auto: so many of the slowest step seen, and no less than this, in which a large
// model is saved or evaluated.
inline constexpr int beat_timeout_steps = 10;
inline constexpr Duration beat_timeout_least = std::chrono::minutes(5);
// A worker that is found silent is looked at again so much later, before it is taken for hung.
inline constexpr Duration beat_second_look = std::chrono::milliseconds(200);
// Whoever looks that late was asleep or stopped, and so were the workers.
inline constexpr Duration beat_look_late = std::chrono::seconds(1);

// One worker's heartbeat file. A worker that has none, or has not beaten, is not read of.
struct BeatReading {
  LocalRank local_rank;
  std::uint64_t beats = 0;
  TimePoint last{};        // beat, by our clock
  std::uint64_t step = 0;  // 0 in these three: it does not say
  std::uint64_t samples = 0;
  std::uint64_t checkpoint_step = 0;
  std::optional<Duration> since_checkpoint = {};
  friend bool operator==(const BeatReading&, const BeatReading&) = default;
};

// For how long the worker that has saved least lately had been going since; 0: nobody says.
Duration unsaved_of(const std::vector<BeatReading>& readings);

// The farthest any of them has come.
link::Reached reached_of(const std::vector<BeatReading>& readings);

class BeatWatch {
 public:
  struct Silent {
    LocalRank local_rank;
    Duration since_beat{};
    friend bool operator==(const Silent&, const Silent&) = default;
  };

  // Nothing: nobody is watched.
  explicit BeatWatch(std::optional<BeatTimeout> timeout) : terms_(timeout) {}

  void started(TimePoint now, LocalRank local_rank);
  void ended(LocalRank local_rank);
  // Everybody is being ended.
  void stop() { *this = BeatWatch(std::nullopt); }

  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether it is time to read the files: `heard` is to be told.
  bool take_due(TimePoint now);
  // The worker that has been silent for longest, if one is hung.
  std::optional<Silent> heard(TimePoint now, const std::vector<BeatReading>& readings);

  // The silence that is too long, as far as is known by now.
  Duration timeout() const;

 private:
  struct Worker {
    LocalRank local_rank;
    TimePoint started{};
    std::uint64_t beats = 0;  // 0: it has not beaten
    TimePoint last{};         // beat; or the last look at one that has not beaten
    bool doubted = false;     // it was silent for too long when it was looked at last
  };

  void learn(Duration step);
  void hear(TimePoint now, Worker& worker, const BeatReading& reading);
  void plan(TimePoint now);

  std::optional<BeatTimeout> terms_;
  std::vector<Worker> workers_;  // those that are alive
  Duration first_step_{};        // to the first beat; counts until a step was seen
  Duration slowest_step_{};
  TimePoint looked_{};
  bool slept_ = false;  // the look came late: nobody is judged by it
  std::optional<TimePoint> due_;
};

}  // namespace cpprun
