// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// SIGTERM as a question instead of an end. A public header.

namespace cpprun::inline v1 {

// While one of these exists, SIGTERM does not end the process but sets a flag. The training loop
// checks it once per step, agrees on it with the other ranks, saves, and leaves. The launcher sends
// SIGKILL when its grace is over. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace cpprun::inline v1
