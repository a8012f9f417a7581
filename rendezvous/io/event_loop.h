// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a part without sockets of its own needs of the loop that it lives in, so that it lives in
// simulated time as well; and the clocks.

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "proto/clock.h"

namespace cpprun {

// It rings once, by the last that was asked of it; never after its end.
class Alarm {
 public:
  virtual ~Alarm() = default;
  virtual void ring_in(Duration after, std::function<void()> what) = 0;
  virtual void call_off() = 0;
};

// For how long this process did not run before an alarm that was due then: it was suspended, or
// starved of CPU. Nothing could be received meanwhile, so that time is no silence of a peer. Zero:
// the alarm rings in time, give or take `slack`.
inline Duration overslept(TimePoint due, TimePoint now, Duration slack) {
  return now - due > slack ? now - due : Duration{};
}
// A moment since which that silence is counted.
inline TimePoint without_sleep(TimePoint since, TimePoint now, Duration slept) {
  return std::min(since + slept, now);
}

struct EventLoop {
  std::function<TimePoint()> now;
  // Runs the function after the caller has returned and pending input has been handled.
  std::function<void(std::function<void()>)> soon;
  std::function<std::unique_ptr<Alarm>()> make_alarm;
};

// The clock for leases. It is monotonic and keeps counting while the machine sleeps: a laptop, or a
// virtual machine that was suspended for an hour, has to find on waking that its lease is over and
// that others have its ranks. The plain monotonic clock stands still meanwhile.
inline TimePoint boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

// For people to read, and for what outlives this process. No deadline depends on it.
inline WallTime wall_now() {
  return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
}

// A descriptor that is readable when a time on the clock for leases has come; -1 where none is to
// be had.
inline int make_boot_timer() {
  return ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

// Sets it again; an expiry not yet read is forgotten.
inline void set_boot_timer(int timer, TimePoint due) {
  // Zero would stop the timer; a time that has passed must expire at once.
  const auto at = std::max(due.time_since_epoch(), Duration{1});
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(at);
  itimerspec when{};
  when.it_value.tv_sec = whole.count();
  when.it_value.tv_nsec = (at - whole).count();
  ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace cpprun
