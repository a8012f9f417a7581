// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a part without sockets of its own needs of the loop that it lives in, so that it lives in
// simulated time as well.

#include <algorithm>
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
  // What has come was looked at by then, and whoever calls has returned.
  std::function<void(std::function<void()>)> soon;
  std::function<std::unique_ptr<Alarm>()> make_alarm;
};

}  // namespace cpprun
