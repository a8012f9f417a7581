// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/asio_loop.h"

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <utility>

#include "rendezvous/io/event_loop.h"

namespace cpprun {

namespace {

class TimerAlarm : public Alarm {
 public:
  explicit TimerAlarm(asio::io_context& context) : timer_(context) {}
  ~TimerAlarm() override { ++*asked_; }
  TimerAlarm(const TimerAlarm&) = delete;
  TimerAlarm& operator=(const TimerAlarm&) = delete;

  // What rings already when something else is asked for has been told so to the loop.
  void ring_in(Duration after, std::function<void()> what) override {
    timer_.expires_after(after);
    timer_.async_wait([asked = asked_, number = ++*asked_,
                       what = std::move(what)](const asio::error_code& error) {
      if (!error && number == *asked) what();
    });
  }
  void call_off() override {
    ++*asked_;
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::uint64_t> asked_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace

EventLoop loop_of(asio::io_context& context) {
  return {.now = boot_now,
          .soon = [&context](std::function<void()> what) { asio::post(context, std::move(what)); },
          .make_alarm = [&context]() -> std::unique_ptr<Alarm> {
            return std::make_unique<TimerAlarm>(context);
          }};
}

}  // namespace cpprun
