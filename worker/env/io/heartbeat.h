// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shows a launcher that a worker makes progress: one call per step, a few nanoseconds, no system
// call. <cpprun/heartbeat_file.h> describes the file. For one thread at a time. A public header.
//
//   cpprun::Heartbeat heartbeat(context);
//   for (…) { …; heartbeat.beat({.step = step, .samples = samples}); }
//   …; heartbeat.saved(step);

#include <cstdint>
#include <string>

#include "worker/env/context.h"

namespace cpprun {
struct HeartbeatRecord;

inline namespace v1 {

class Heartbeat {
 public:
  // The file that CPPRUN_HEARTBEAT_FILE names. If there is none, or it cannot be created (which is
  // reported on stderr, since no training should end for that), beat() does nothing.
  explicit Heartbeat(const Context& context);
  Heartbeat(const std::string& path, int rank);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // How far the training is; 0 where that is not told.
  struct Progress {
    std::uint64_t step = 0;     // the last one that is complete
    std::uint64_t samples = 0;  // so far, over all restarts
  };

  // This worker makes progress. Without figures its beats count as its steps.
  void beat() noexcept;
  void beat(const Progress& progress) noexcept;
  // A checkpoint of that step is complete.
  void saved(std::uint64_t step) noexcept;
  bool works() const { return record_ != nullptr; }

 private:
  HeartbeatRecord* record_ = nullptr;  // in memory that is the file's
};

}  // namespace v1
}  // namespace cpprun
