// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shows a launcher that a worker makes progress: one call per step, a few nanoseconds, no system
// call. <cpprun/heartbeat_file.h> describes the file. For one thread at a time. A public header.
//
//   cpprun::Heartbeat heartbeat(context);
//   for (…) { …; heartbeat.metric("loss", loss); heartbeat.beat({.step = step, .total = steps}); }
//   …; heartbeat.saved(step);

#include <cstdint>
#include <string>
#include <string_view>

#include "worker/env/context.h"

namespace cpprun {
struct HeartbeatRecord;

inline namespace v1 {

class Heartbeat {
 public:
  // Uses the file of CPPRUN_HEARTBEAT_FILE. If that is not set or the file cannot be created,
  // beat() does nothing. A failure is reported on stderr and does not end the training.
  explicit Heartbeat(const Context& context);
  Heartbeat(const std::string& path, int rank);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // How far the training is. 0 means unknown.
  struct Progress {
    std::uint64_t step = 0;     // the last complete step
    std::uint64_t samples = 0;  // so far, over all restarts
    std::uint64_t total = 0;    // how many steps this training has in all
  };

  // Reports progress. Without figures, the number of calls counts as the number of steps.
  void beat() noexcept;
  void beat(const Progress& progress) noexcept;
  // Reports that the checkpoint of that step is complete.
  void saved(std::uint64_t step) noexcept;
  // Reports one of the training's own numbers, to be shown with its progress. A name has at most 16
  // letters, digits, '_', '.', '-' and '/'. False if the name is invalid, or if 8 others are taken.
  bool metric(std::string_view name, double value) noexcept;
  bool works() const { return record_ != nullptr; }

 private:
  HeartbeatRecord* record_ = nullptr;  // mapped from the file
};

}  // namespace v1
}  // namespace cpprun
