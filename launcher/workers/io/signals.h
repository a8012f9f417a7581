// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The signals cpprun handles (Signals), and whether a process handles a given one.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun::io {

// The signals cpprun handles, delivered from the event loop, each with its sender.
class Signals {
 public:
  // `on_signal` is called from the event loop for each arrival, with its sender. If cpprun was
  // started with SIGHUP ignored (nohup), or with a signal ignored that does not mean stop, it stays
  // ignored. Signals that cannot be handled are in `not_handled`.
  Signals(asio::io_context& context, const std::vector<int>& signals,
          std::function<void(int signal, const SignalSender& sender)> on_signal);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const std::vector<std::string>& not_handled() const { return not_handled_; }

 private:
  void wait();
  void take();

  sigset_t handled_{};
  sigset_t blocked_{};  // those not blocked before; other code may handle the rest
  asio::posix::stream_descriptor arrivals_;
  std::function<void(int, const SignalSender&)> on_signal_;
  std::vector<std::string> not_handled_;
};

// Whether a process handles a signal: by a handler, by waiting for it, or by ignoring it. Otherwise
// it would die of SIGUSR1. Reads /proc; false if that does not show it.
bool takes_signal(int pid, int signal);

// The same, from the text of /proc/PID/status.
bool takes_signal_by(std::string_view status, int signal);

}  // namespace cpprun::io
