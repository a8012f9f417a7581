// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What OutputPump is made of: a worker's streams, their files and its terminal, and cpprun's own
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
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Of one stream of one worker.
struct StreamFiles {
  int error_number = 0;  // one of them could not be opened
  FileDescriptor own;    // which the worker's stream itself becomes
  std::shared_ptr<LogWriter> writer;
  std::optional<std::size_t> file;  // by their numbers there
  std::optional<std::size_t> duplicates;
};

// The log files of the attempt that runs, by what a worker's plan says of them, and those of
// earlier ones that are still being written.
class AttemptFiles {
 public:
  AttemptFiles(asio::io_context& context, SideProcesses& side, LogWriter::Callbacks callbacks)
      : context_(context), side_(side), callbacks_(std::move(callbacks)) {}

  // Those of the attempt before are complete. The disk has that long.
  void open(const std::vector<WorkerSpec>& specs, Duration patience);
  StreamFiles find(const StreamPlan& plan);
  // No more words come.
  void finish();
  // After that: whether everything is in the files.
  bool all_written() const;
  // Where it is not; nobody waits for that any more.
  std::vector<std::string> give_up();

 private:
  void add(const StreamPlan& plan, std::vector<LogWriter::Order>& orders);

  asio::io_context& context_;
  SideProcesses& side_;
  LogWriter::Callbacks callbacks_;
  std::shared_ptr<LogWriter> writer_;          // where there are files at all
  std::map<std::string, std::size_t> orders_;  // its numbers, by path
  std::vector<std::shared_ptr<LogWriter>> finished_;
};

// One stream of one worker that passes here, through a pipe or a pseudo-terminal.
struct WorkerStream : std::enable_shared_from_this<WorkerStream> {
  WorkerStream(asio::io_context& context, int read_end)
      : pipe(context, read_end), show_timer(context) {}

  asio::posix::stream_descriptor pipe;
  int speaker = 0;
  std::size_t console = 0;  // 0: stdout
  std::string prefix;
  StreamFiles files;
  std::vector<std::string> duplicate_words;
  bool is_terminal = false;       // the pipe is our end of a pseudo-terminal
  bool as_it_is = false;          // every byte at once, without a prefix
  bool heard = true;              // on the console
  bool paused = false;            // until the console, or the files, have room
  asio::steady_timer show_timer;  // for a line that stays unfinished
  bool is_showing = false;        // it is set
  LineSplitter splitter;
  LastLines last;
  std::optional<TimePoint> spoke_at = {};  // when words of it came last
};

// A pseudo-terminal for a worker, where cpprun's own stderr is a terminal: the worker keeps its
// colours, its progress bars and its buffering, and what it writes is read here.
struct WorkerTerminal {
  FileDescriptor ours;    // what the worker writes is read here, every byte as it was
  FileDescriptor worker;  // not its controlling terminal
};

// With the settings and the size of the terminal `like`. Nothing where none can be had: there is no
// /dev/ptmx, or as many are in use as may be.
std::optional<WorkerTerminal> open_worker_terminal(int like);

void copy_terminal_size(int from, int to);

// Whether two descriptors are one file, pipe, socket or terminal.
bool same_file(int a, int b);

// One of cpprun's own output streams, shared by several speakers whose lines never mix. Writing
// never blocks: what cannot be written yet waits in a queue, and callers check `full` and pause.
class Console {
 public:
  using Callbacks = PatientWriter::Callbacks;

  // `descriptor` stays the caller's.
  Console(asio::io_context& context, int descriptor, Callbacks callbacks)
      : writer_(context, descriptor, std::move(callbacks)) {}

  // Writes at once what the reader takes, and queues the rest.
  void write(int speaker, std::string_view prefix, const Piece& piece);

  bool full() const { return writer_.full(); }
  bool never_blocks() const { return writer_.never_blocks(); }
  bool empty() const { return writer_.empty(); }

 private:
  PatientWriter writer_;
  LineMux mux_;
};

}  // namespace cpprun::io
