// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The event loop of a program on Asio, and the timer of a state machine's driver.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "proto/clock.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun {

EventLoop loop_of(asio::io_context& context);

// The one timer that a machine's driver arms to its next_deadline(), on the clock of boot_now().
class MachineTimer {
 public:
  // `due` is called from the event loop when a deadline has come; it arms the timer again.
  MachineTimer(asio::io_context& context, std::function<void()> due)
      : timer_(context), due_(std::move(due)) {
    const int timer = make_boot_timer();
    if (timer < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
    timer_.assign(timer);
  }
  ~MachineTimer() { *alive_ = false; }
  MachineTimer(const MachineTimer&) = delete;
  MachineTimer& operator=(const MachineTimer&) = delete;

  // Nothing: no deadline, no call.
  void arm(std::optional<TimePoint> deadline) {
    if (deadline == armed_) return;
    armed_ = deadline;
    if (!deadline) return timer_.cancel();
    set_boot_timer(timer_.native_handle(), *deadline);
    if (!waiting_) wait();
  }

 private:
  void wait() {
    waiting_ = true;
    timer_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this, alive = alive_](const asio::error_code&) {
                        if (!*alive) return;
                        waiting_ = false;
                        // It was called off, or set to a later time, after it had been told.
                        if (!armed_) return;
                        if (boot_now() < *armed_) return wait();
                        armed_.reset();
                        due_();
                      });
  }

  asio::posix::stream_descriptor timer_;  // readable when the deadline has come
  std::function<void()> due_;
  std::optional<TimePoint> armed_;  // what the timer waits for now
  bool waiting_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
