// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether an object belongs to this process, or was copied into it by a fork. Without a system
// call, because libraries ask before every use.

#include <pthread.h>

#include <atomic>

namespace cpprun {

class OwnerProcess {
 public:
  OwnerProcess() : forks_(forks()) {}
  // False in every child of fork(). A process made by clone() alone is not noticed.
  bool is_this() const { return forks_ == forks(); }

 private:
  // How many forks there were between the first use and this process.
  static unsigned forks() {
    // The only way to learn of a fork. Never destroyed, so exit() cannot race with it.
    static std::atomic<unsigned> count{0};
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
    (void)registered;  // it fails only without memory; then forks are not noticed
    return count.load(std::memory_order_relaxed);
  }

  unsigned forks_;
};

}  // namespace cpprun
