// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <csignal>

namespace cpprun {

// Blocks all signals of this thread, and of threads that it starts, during its lifetime. A thread
// of ours that is started so never takes a signal from the program that it serves.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    static_cast<void>(::pthread_sigmask(SIG_SETMASK, &all, &before_));
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { static_cast<void>(::pthread_sigmask(SIG_SETMASK, &before_, nullptr)); }

 private:
  sigset_t before_{};
};

}  // namespace cpprun
