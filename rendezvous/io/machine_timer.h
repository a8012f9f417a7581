#pragma once
// The one timer that a machine's driver arms to its next_deadline().

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "proto/clock.h"

namespace cpprun {

class MachineTimer {
 public:
  // `due` is called from the event loop when a deadline has come; it arms the timer again.
  MachineTimer(asio::io_context& context, std::function<void()> due)
      : timer_(context), due_(std::move(due)) {}

  // Nothing: no deadline, no call.
  void arm(std::optional<TimePoint> deadline) {
    if (deadline == armed_) return;
    armed_ = deadline;
    timer_.cancel();
    if (!deadline) return;
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*deadline));
    timer_.async_wait([this](const asio::error_code& cancelled) {
      if (cancelled) return;
      armed_.reset();
      due_();
    });
  }

 private:
  asio::steady_timer timer_;
  std::function<void()> due_;
  std::optional<TimePoint> armed_;  // what the timer waits for now
};

}  // namespace cpprun
