// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shows a launcher that a worker makes progress: one call per step, a few nanoseconds, no system
// call. <cpprun/heartbeat_file.h> describes the file. For one thread at a time. A public header.
//
//   cpprun::Heartbeat heartbeat(context);
//   for (…) { …; heartbeat.beat(); }

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

  void beat() noexcept;
  bool works() const { return record_ != nullptr; }

 private:
  HeartbeatRecord* record_ = nullptr;  // in memory that is the file's
};

}  // namespace v1
}  // namespace cpprun
