// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a part without sockets of its own needs of the loop that it lives in, so that it lives in
// simulated time as well.

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

struct EventLoop {
  std::function<TimePoint()> now;
  // What has come was looked at by then, and whoever calls has returned.
  std::function<void(std::function<void()>)> soon;
  std::function<std::unique_ptr<Alarm>()> make_alarm;
};

}  // namespace cpprun
