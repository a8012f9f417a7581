// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Lets a launcher see that a worker gets on: one call per step, a few nanoseconds, no system call.
// <cpprun/heartbeat_file.h> describes the file. Of one thread. A public header.
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
  // The file that CPPRUN_HEARTBEAT_FILE names. Without one, or if it cannot be made (which is said
  // on stderr: no training ends for that), beat() does nothing.
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
