#pragma once
// The daemon's log on stderr: a line per closed client, alike ones counted instead of written.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <optional>
#include <string>

#include "rendezvous/daemon_options.h"
#include "rendezvous/io/connection_set.h"
#include "rendezvous/log_limiter.h"

namespace cpprun {

class DaemonLog {
 public:
  DaemonLog(asio::io_context& io, const DaemonOptions& options)
      : is_quiet_(options.is_quiet), is_verbose_(options.is_verbose), timer_(io) {}

  void write(const Note& note);

 private:
  void tell_held_back(TimePoint now);
  void arm();

  bool is_quiet_;
  bool is_verbose_;
  LogLimiter limiter_;
  asio::steady_timer timer_;
  std::optional<TimePoint> armed_;
};

}  // namespace cpprun
