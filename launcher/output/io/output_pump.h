// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Carries the workers' output to the console and into the log files. Two kinds of streams pass
// through here. Tee'd streams are copied line by line with a prefix. Other streams are copied byte
// by byte, so that their last lines are known. If the console is a terminal, each such worker gets
// a pseudo-terminal. A stream that is redirected to a file does not pass through here. cpprun's own
// messages do, so that none lands inside a worker's line.
//
// A console that is not read slows down only the workers that write to it, through their pipes.
// Nothing here ever blocks.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/io/output_streams.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/io/process.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// The output between two programs in one process.
struct OutputCarried {
  struct Stream {
    LocalRank local_rank{};
    bool is_stderr = false;
    int pipe = -1;
    LineSplitter::State splitter = {};
    LastLines::State last = {};
    std::optional<TimePoint> spoke_at = {};
    friend bool operator==(const Stream&, const Stream&) = default;
  };
  std::optional<Console::Carried> out = {};  // none: it is that of stderr
  std::optional<Console::Carried> err = {};
  std::optional<LogWriter::Carried> files = {};
  std::vector<Stream> streams = {};
  friend bool operator==(const OutputCarried&, const OutputCarried&) = default;
};

struct LastOutput {
  TimePoint at{};
  std::string line = {};
};

class OutputPump {
 public:
  // The caller keeps ownership of `out` and `err`, usually 1 and 2. With `timed`, each line of
  // cpprun's own starts with the time. `side` writes the files and must outlive this object.
  OutputPump(asio::io_context& context, HelperProcesses& side, int out, int err, bool timed = false,
             const OutputCarried* before = nullptr);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // An attempt begins: opens the log files of its new workers, for at most `timeout`. A worker
  // whose files are not open cannot be attached. `others_remain`: workers of the last attempt keep
  // their files.
  void open_logs(const std::vector<WorkerSpec>& specs, Duration timeout,
                 bool others_remain = false);
  // Call before spawning a worker. Creates the pipes of streams that pass through here. Pass the
  // write ends, and the files that become the worker's own streams, to WorkerProcesses::spawn. Then
  // call `release`.
  tl::expected<WorkerStreams, SpawnError> attach(const WorkerSpec& spec);
  void release(WorkerStreams& streams);

  // Queues a complete message of cpprun's own for stderr.
  void say(const std::string& text);
  // Much output is queued for stderr: callers should skip optional messages.
  bool is_behind() const;

  // Calls `line` with each line of the workers' stderr that passes through here. A long one comes
  // in pieces.
  void watch_stderr(std::function<void(std::string_view)> line);

  // Reads what is in that worker's pipes now, so that `last_lines` is current.
  void drain(LocalRank local_rank);
  // Whether its stderr passes through here.
  bool hears(LocalRank local_rank) const;
  // The last lines of its stderr if it passes through here; otherwise empty.
  std::vector<std::string> last_lines(LocalRank local_rank) const;

  // Its last line that passed through here, finished or not, and when; nullopt if there was none.
  // The text is safe to show (see `printable`) and may be empty.
  std::optional<LastOutput> last_output(LocalRank local_rank) const;

  // That worker is gone. Reads what is left in its pipes and closes them, even if another process
  // still holds the write end.
  void close(LocalRank local_rank);

  // For another program in this process, whose object continues (`before`): what it needs. A reason
  // if it cannot continue at the moment. `adopt` then gives it the workers of the running attempt.
  Result<OutputCarried> carried() const;
  void adopt(const std::vector<WorkerSpec>& specs, const OutputCarried& before);

  // Calls `done` once all output has reached the consoles and the files, or after `timeout`. Waits
  // at most bounds::disk_timeout_at_end for a disk that does not respond.
  void flush(Duration timeout, std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cpprun::io
