// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The daemon's log on stderr: one line per event of a job, and one per closed client, with similar
// lines counted instead of repeated. A slow, absent or disconnected reader delays nothing: lines
// that do not fit are dropped, counted and reported later.

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/stream_writer.h"
#include "rendezvous/logging.h"
#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

class DaemonLog {
 public:
  // `descriptor` stays owned by the caller and is usually 2. If it is a file, a process of `side`
  // writes it, since its disk may hang.
  DaemonLog(asio::io_context& io, HelperProcesses& side, int descriptor,
            const DaemonOptions& options);

  // A failure of the log never affects the server.
  void write(const Note& note) noexcept;
  // Messages of the daemon itself.
  void say(LogLevel level, std::string_view text) noexcept;
  // Call this last. Waits briefly for a slow reader.
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
  std::unique_ptr<FileWriterProcess> file_writer_;  // only if the log is a file
  NonBlockingWriter writer_;
  std::uint64_t lost_lines_ = 0;  // dropped because the queue was full or memory ran out
};

}  // namespace cpprun
