// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The daemon's log on stderr: a line for what happens to its jobs, and one for each client that was
// closed, alike ones counted instead of written. Whoever reads it slowly, or not at all, or has
// gone, holds up nobody: what finds no room is counted and told later.

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/bounds.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/io/stream_writer.h"
#include "rendezvous/logging.h"
#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

class DaemonLog {
 public:
  // `descriptor` stays the caller's, and is usually 2. A file is written by one of `side`: its disk
  // may hang.
  DaemonLog(asio::io_context& io, SideProcesses& side, int descriptor,
            const DaemonOptions& options);

  // Nothing that can go wrong with a log reaches who serves.
  void write(const Note& note) noexcept;
  // The daemon's own words.
  void say(LogLevel level, std::string_view text) noexcept;
  // The last act: a slow reader is given a moment.
  void flush() noexcept;

 private:
  void take(const Note& note);
  void put(std::string_view text);
  void tell_lost_lines();
  void tell_lost_bytes(std::uint64_t bytes);
  template <class Action>
  void guarded(Action action) noexcept;
  void advance(TimePoint now);

  LogLevel most_;
  bool tells_clients_;
  LogLimiter limiter_;
  MachineTimer timer_;
  std::unique_ptr<Scribe> scribe_;  // of a file
  PatientWriter writer_;
  std::uint64_t lost_lines_ = 0;  // for want of room in the queue, or of memory
};

}  // namespace cpprun
