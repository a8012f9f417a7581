// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Notices that none of a node's workers shows any progress (ProgressMonitor), for --hang-timeout.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/hang/observation.h"
#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/hang/evidence.h"

namespace cpprun {

// What the kernel and the worker's streams show without asking the worker. All figures but one only
// grow.
struct ProgressSigns {
  LocalRank local_rank;
  std::uint64_t beats = 0;               // heartbeats
  std::optional<TimePoint> last_output;  // of its stdout and stderr
  // Of the worker itself, with the time in which its main thread wanted a CPU and had none: on an
  // overloaded machine, it may compute with very little.
  Duration cpu{};
  std::uint64_t bytes = 0;      // read and written by it
  std::int64_t memory_kib = 0;  // resident; may shrink
  Duration children_cpu{};      // the same of the processes it started
  std::uint64_t children_bytes = 0;
  friend bool operator==(const ProgressSigns&, const ProgressSigns&) = default;
};

// The workers are read at intervals. Heartbeats, output, bytes, memory that grows, and CPU time of
// child processes are progress. CPU time of the worker itself may be a computation, a loop that
// never ends, or a collective operation that spins. Then the worker's stack tells them apart, if it
// can be read:
//
//   - inside a collective operation, only new operations are progress;
//   - a computation shows many different stacks, of its main thread or of those for which that
//     waits. A loop shows one or two, and so does a long operation in C; but Python code that loops
//     holds the GIL, so the server in the worker answers late, while operations of PyTorch release
//     it.
//
// What is not known counts as progress: native stacks, a collective that no flight recorder knows.
class ProgressMonitor {
 public:
  // No timeout: workers are not checked.
  explicit ProgressMonitor(std::optional<Duration> timeout) : timeout_(timeout) {}

  void started(TimePoint now, LocalRank local_rank);
  void ended(LocalRank local_rank);
  // All workers are being stopped.
  void stop() { workers_.clear(), due_.reset(); }

  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether it is time to read the signs. If so, call heard() with them.
  bool take_due(TimePoint now);
  // Returns whether the workers' stacks are needed to decide. If so, call observed(), with nothing
  // if they could not be read, which is no sign of a hang.
  bool heard(TimePoint now, const std::vector<ProgressSigns>& signs);
  // Also of a capture that was requested by others.
  void observed(TimePoint now, const std::vector<hang::Observation>& observations);

  // How long no worker has made progress; zero if one did when they were last read, or if there is
  // none to check.
  Duration quiet(TimePoint now) const;
  Duration timeout() const { return timeout_.value_or(Duration{}); }
  Duration interval() const {
    return std::clamp<Duration>(timeout() / 20, std::chrono::seconds(1), std::chrono::seconds(15));
  }

 private:
  struct Worker {
    LocalRank local_rank;
    TimePoint progress{};  // when it last showed some
    ProgressSigns signs;
    bool is_computing = false;  // it uses CPU time, and nothing else is known
    bool was_observed = false;  // since the last read, which makes it read and write a little
    // Of the observations since its last progress.
    std::vector<std::size_t> stacks = {};  // hashes of different stacks, with the lines
    int observations = 0;
    int with_gil = 0;  // how many found that it holds the GIL
    std::int64_t operations = -1;
  };

  static void progressed(TimePoint now, Worker& worker);
  bool is_loop(Worker& worker, const hang::Observation& observation) const;

  std::optional<Duration> timeout_;
  std::vector<Worker> workers_;  // those that run
  TimePoint read_{};
  std::optional<TimePoint> due_;
};

}  // namespace cpprun
