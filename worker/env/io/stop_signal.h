// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// SIGTERM as a flag instead of an exit. A public header.

namespace cpprun::inline v1 {

// While an object exists, SIGTERM sets a flag and does not end the process. The training loop
// should check it once per step, agree on it with the other ranks, save, and exit. The launcher
// sends SIGKILL after its grace period. Only one object may exist at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace cpprun::inline v1
