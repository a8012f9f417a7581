// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Carries the workers' output to the console and into the log files. Two kinds of streams pass
// here: those that are tee'd, line by line with a prefix, and those that only pass through, byte by
// byte, so that their last lines are known; at a terminal through a pseudo-terminal for each
// worker, so that it has one as well. A redirected file is the worker's own descriptor. cpprun's
// own messages go through here too, so that no sentence lands inside a worker's line.
//
// A console that nobody reads slows down the workers that write to it, through their pipes, and
// nobody else: nothing here ever blocks.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/io/process.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

class OutputPump {
 public:
  // `out` and `err` stay the caller's and are usually 1 and 2.
  // With `timed` each of cpprun's own lines begins with the time at which it is said. `side` is
  // there for as long as this, and writes the files.
  OutputPump(asio::io_context& context, SideProcesses& side, int out, int err, bool timed = false);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // An attempt begins: the log files of all its workers are opened, for which their disk has that
  // long. Whose files are not open then cannot be attached.
  void open_logs(const std::vector<WorkerSpec>& specs, Duration patience);
  // Before a worker is spawned: makes the pipes of what passes here. Their write ends, and the
  // files that are the worker's own, are handed to WorkerProcesses::spawn and then let go with
  // `release`.
  tl::expected<WorkerStreams, SpawnError> attach(const WorkerSpec& spec);
  void release(WorkerStreams& streams);

  // A whole text of cpprun's own, to stderr, after whatever is queued there.
  void say(const std::string& text);
  // Much waits for whoever reads stderr: what may be left out should be.
  bool is_behind() const;

  // Takes what lies in that worker's pipes right now, so that its last lines are known.
  void drain(LocalRank local_rank);
  // Whether its stderr passes here.
  bool hears(LocalRank local_rank) const;
  // The last lines of its stderr, where that passes here; empty otherwise.
  std::vector<std::string> last_lines(LocalRank local_rank) const;

  // When words of it last passed here; nothing where none have.
  std::optional<TimePoint> spoke_at(LocalRank local_rank) const;

  // That worker is gone: what is in its pipes is taken, then they are closed, even where some
  // process elsewhere still holds their other end.
  void close(LocalRank local_rank);

  // Calls `done` when everything said has reached the consoles and the files, or after `patience`;
  // a disk that does not answer is waited for no longer than that of a report.
  void flush(Duration patience, std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cpprun::io
