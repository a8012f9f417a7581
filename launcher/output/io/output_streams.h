// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The parts of OutputPump: a worker's streams, their files and its terminal, and cpprun's own
// console.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/output/io/log_writer.h"
#include "launcher/output/lines.h"
#include "launcher/plan/plan.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// The files of one stream of one worker.
struct StreamFiles {
  int error_number = 0;  // errno of a file that could not be opened
  FileDescriptor own;    // becomes the worker's stream itself
  std::shared_ptr<LogWriter> writer;
  std::optional<std::size_t> file;  // indexes in `writer`
  std::optional<std::size_t> duplicates;
};

// The log files of the current attempt, looked up by a worker's plan, and those of earlier attempts
// that are still being written.
class AttemptFiles {
 public:
  AttemptFiles(asio::io_context& context, HelperProcesses& side, LogWriter::Callbacks callbacks)
      : context_(context), side_(side), callbacks_(std::move(callbacks)) {}

  // Opens the files of a new attempt within `timeout`. The previous attempt's files must be
  // finished.
  // `others_remain`: streams of earlier workers are still written to their files.
  void open(const std::vector<WorkerSpec>& specs, Duration timeout, bool others_remain);
  StreamFiles find(const StreamPlan& plan);
  // The output is complete for this attempt.
  void finish();
  // After `finish`: whether everything is in the files.
  bool all_written() const;
  // Stops waiting. Returns the directories whose files are incomplete.
  std::vector<std::string> give_up();

  // For another program in this process. A reason if files are not written as they should be.
  Result<std::optional<LogWriter::Carried>> carried() const;
  void adopt(const LogWriter::Carried& carried);

 private:
  void end(std::shared_ptr<LogWriter> writer);
  void add(const StreamPlan& plan, std::vector<LogWriter::File>& orders);

  asio::io_context& context_;
  HelperProcesses& side_;
  LogWriter::Callbacks callbacks_;
  std::shared_ptr<LogWriter> writer_;                // null if there are no files
  std::map<std::string, std::size_t> orders_;        // index in `writer_`, by path
  std::vector<std::shared_ptr<LogWriter>> earlier_;  // that streams of earlier workers use
  std::vector<std::shared_ptr<LogWriter>> finished_;
};

// One stream of one worker that passes through cpprun, by a pipe or a pseudo-terminal.
struct WorkerStream : std::enable_shared_from_this<WorkerStream> {
  WorkerStream(asio::io_context& context, int read_end)
      : pipe(context, read_end), show_timer(context) {}

  asio::posix::stream_descriptor pipe;
  int speaker = 0;
  std::size_t console = 0;  // 0: stdout
  std::string prefix;
  StreamFiles files;
  std::vector<std::string> duplicate_words;
  bool is_stderr = false;
  bool is_terminal = false;       // the pipe is the master side of a pseudo-terminal
  bool as_it_is = false;          // every byte is passed at once, without a prefix
  bool heard = true;              // shown on the console
  bool paused = false;            // until the console or the files have room
  asio::steady_timer show_timer;  // shows an unfinished line after a delay
  bool is_showing = false;        // the timer is set
  LineSplitter splitter;
  LastLines last;
  std::optional<TimePoint> spoke_at = {};  // when output last arrived
};

// A pseudo-terminal for a worker, used if cpprun's own stderr is a terminal. The worker keeps its
// colors, progress bars and buffering, and cpprun reads what it writes.
struct WorkerTerminal {
  FileDescriptor ours;    // master side; output is read unchanged
  FileDescriptor worker;  // not the worker's controlling terminal
};

// Copies the settings and size of the terminal `like`. nullopt if no pseudo-terminal is available:
// no /dev/ptmx, or the system's limit is reached.
std::optional<WorkerTerminal> open_worker_terminal(int like);

void copy_terminal_size(int from, int to);

// Whether two descriptors refer to the same file, pipe, socket or terminal.
bool same_file(int a, int b);

// One of cpprun's own output streams, shared by several speakers whose lines never mix. Writing
// never blocks: excess output is queued, and callers must check `full` and pause.
class Console {
 public:
  using Callbacks = NonBlockingWriter::Callbacks;

  // The caller keeps ownership of `descriptor`.
  Console(asio::io_context& context, int descriptor, Callbacks callbacks)
      : writer_(context, descriptor, std::move(callbacks)) {}

  // As another program in this process left it, which a console of the same stream continues.
  struct Carried {
    std::string queue = {};
    std::optional<int> inside = {};
    std::optional<FileWriterProcess::Carried> writer = {};  // if the stream is a file
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const { return {writer_.queued(), mux_.state(), {}}; }
  void resume(const Carried& carried) {
    mux_.resume(carried.inside);
    writer_.write(carried.queue);
  }

  // Writes as much as the reader takes now, and queues the rest.
  void write(int speaker, std::string_view prefix, const Piece& piece);

  bool full() const { return writer_.full(); }
  bool never_blocks() const { return writer_.never_blocks(); }
  bool empty() const { return writer_.empty(); }

 private:
  NonBlockingWriter writer_;
  LineMux mux_;
};

}  // namespace cpprun::io
