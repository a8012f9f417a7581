// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The clock for leases. It is monotonic and keeps counting while the machine sleeps: a laptop, or a
// virtual machine that was suspended for an hour, has to find on waking that its lease is over and
// that others have its ranks. The plain monotonic clock stands still meanwhile.

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "proto/clock.h"

namespace cpprun {

inline TimePoint boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

// A descriptor that is readable when a time on that clock has come; -1 where none is to be had.
inline int make_boot_timer() {
  return ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

// Sets it again; an expiry not yet read is forgotten.
inline void set_boot_timer(int timer, TimePoint due) {
  // Zero would stop it, where a time that has passed is to be told at once.
  const auto at = std::max(due.time_since_epoch(), Duration{1});
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(at);
  itimerspec when{};
  when.it_value.tv_sec = whole.count();
  when.it_value.tv_nsec = (at - whole).count();
  ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace cpprun
