// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The signals cpprun was asked to handle (Signals), and whether a process takes one.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun::io {

// The signals cpprun was asked to handle, delivered from the event loop, each with its sender.
class Signals {
 public:
  // `on_signal` is called for each arrival, from the event loop, with its sender. A SIGHUP that
  // cpprun was started to ignore (nohup), and one that asks nobody to end, stays ignored; signals
  // that cannot be handled are in `not_handled`.
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
  sigset_t blocked_{};  // those that were not before our time; others may be handled elsewhere
  asio::posix::stream_descriptor arrivals_;
  std::function<void(int, const SignalSender&)> on_signal_;
  std::vector<std::string> not_handled_;
};

// Whether a process takes a signal: by a handler, by waiting for it, or by ignoring it. One that
// does not would end of SIGUSR1.
// Of a process that is there, by /proc; where that does not say, it does not.
bool takes_signal(int pid, int signal);

// The same of what /proc/PID/status says.
bool takes_signal_by(std::string_view status, int signal);

}  // namespace cpprun::io
