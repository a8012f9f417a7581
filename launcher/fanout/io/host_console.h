// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The loop of a console that talks to hosts through remote shells: signals, a timer and the shells.
// Its machine decides: FanOut for a job, doctor::Examination for `cpprunctl doctor`.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/io/shells.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/state_machine.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

template <StateMachine Machine>
class HostConsole {
 public:
  using Action = typename Machine::Action;

  // `show` performs what is not about the shells; it may be empty.
  HostConsole(Machine machine, const Environment& environment, std::vector<std::string> shell,
              fanout::JobTerms job, fanout::OwnBinary own,
              std::function<void(const Action&)> show = {})
      : signals_(context_, SIGINT, SIGTERM, SIGHUP),
        timer_(context_),
        machine_(std::move(machine)),
        show_(std::move(show)),
        shells_(context_, environment, std::move(shell), std::move(job), std::move(own),
                [this](const fanout::Said& said) { tell(said); }) {
    signals_.add(SIGQUIT);
  }

  // Returns the exit code when no shell is open.
  int run() {
    wait_for_signals();
    perform(machine_.start());
    context_.run();
    return code_;
  }
  const Machine& machine() const { return machine_; }

 private:
  TimePoint now() {
    const TimePoint now = std::chrono::steady_clock::now();
    if constexpr (requires { machine_.set_clocks(ClockPair{}); }) {
      machine_.set_clocks({.now = now, .wall = wall_now()});
    }
    return now;
  }

  void tell(const typename Machine::Event& event) { perform(machine_.handle(now(), event)); }

  void perform(const typename Machine::Actions& actions) {
    for (const Action& action : actions) {
      if (show_) show_(action);
      if (const auto* dial = std::get_if<fanout::Dial>(&action)) shells_.dial(*dial);
      if (const auto* tell = std::get_if<fanout::Tell>(&action)) shells_.tell(*tell);
      if (const auto* finish = std::get_if<fanout::Finish>(&action)) return end(finish->code);
    }
    if (!is_over_) arm(machine_.next_deadline());
  }

  // A shell that has announced its end exits shortly.
  void end(int code) {
    is_over_ = true;
    code_ = code;
    if (shells_.empty()) return context_.stop();
    shells_.when_idle([this] { context_.stop(); });
    timer_.expires_after(fanout::kill_timeout);
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) context_.stop();
    });
  }

  void wait_for_signals() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      wait_for_signals();
      tell(fanout::Interrupted{signal});
    });
  }

  void arm(std::optional<TimePoint> due) {
    if (!due) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*due));
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) perform(machine_.advance(now()));
    });
  }

  asio::io_context context_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  Machine machine_;
  std::function<void(const Action&)> show_;
  Shells shells_;
  bool is_over_ = false;
  int code_ = 1;
};

}  // namespace cpprun::io
