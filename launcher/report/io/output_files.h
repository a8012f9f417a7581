// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The files of --report and --events (OutputFiles), and the writer of the latter (EventFile).

#include <sys/types.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/io/disk_helper.h"
#include "launcher/report/report_json.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Whether the path is not on a disk, such as /dev/stdout. This process must then open it itself,
// because /dev/stdout is another file in another process.
bool is_at_hand(const std::string& path);
// If the path is a symbolic link to a path that `is_at_hand`, the target; otherwise empty. Accesses
// the disk.
std::string leads_at_hand(std::string path);

// The file of --events. Lines are written whole and in order. If a pipe is not read or a disk is
// full, lines are queued up to a limit and written when there is room. Nothing here blocks: a file
// on a disk, which may hang, is written by a separate process.
class EventFile {
 public:
  EventFile() = default;  // writes nothing
  // Opens for appending. Fails for a pipe without a reader and for a disk that does not respond.
  static Result<EventFile> open(const std::string& path, HelperProcesses& side);

  // Its writing continues when another program is executed in this process: what it needs.
  struct Carried {
    std::string path = {};
    int at_hand = -1;
    std::optional<FileWriterProcess::Carried> process = {};
    std::string queue = {};
    std::uint64_t lost = 0;
    bool is_over = false;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const;
  static EventFile adopt(Carried carried);

  explicit operator bool() const { return !is_over_ && (at_hand_ || process_); }

  // Starts writing. `tell` gets one message for each problem when it begins. The object must not be
  // moved after this and must be destroyed before `context`.
  using Tell = std::function<void(const std::string& sentence)>;
  void serve(asio::io_context& context, Tell tell);
  // After a permanent error, lines are discarded.
  void append(const std::string& line);
  // Ends the log. `done` is called when everything is written or was given up.
  void finish(std::function<void()> done);

  // The number of lines dropped because the queue was full, since the last call.
  std::size_t take_lost();

 private:
  struct Service {
    NonBlockingWriter writer;
    asio::steady_timer timer;
    Tell tell;
    std::function<void()> done = {};
  };

  int descriptor() const { return process_ ? process_->pipe() : at_hand_.get(); }
  void report_error(int error_number);
  void process_ended();
  void all_is_sent();
  void end();

  std::string path_;
  FileDescriptor at_hand_;                      // what this process writes itself
  std::unique_ptr<FileWriterProcess> process_;  // or the process that writes it
  std::unique_ptr<Service> service_;
  std::string queue_before_;  // of another program, until serve()
  std::size_t lost_ = 0;
  bool finishing_ = false;
  bool is_over_ = false;  // nothing is written from here on
};

// Device and inode numbers of this process's stdout and stderr.
using OwnStreams = std::vector<std::pair<dev_t, ino_t>>;

// The files of --report and --events. Both are checked before anything starts, so that a job does
// not lose its report after days of running. Their disks may hang, so helper processes do the work,
// and stopping workers never waits for it.
class OutputFiles {
 public:
  OutputFiles() = default;  // neither file
  // An empty path means no such file. Fails, naming the flag, if a file cannot be written. `side`
  // must outlive this object.
  static Result<OutputFiles> open(const std::string& report_path, const std::string& events_path,
                                  HelperProcesses& side);

  // Checks whether events could be written there. Leaves nothing behind.
  static Result<void> try_events(const std::string& path, HelperProcesses& side);

  // As in EventFile.
  struct Carried {
    std::string report_path = {};
    std::string report_name = {};
    std::string announced = {};
    EventFile::Carried events = {};
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const { return {report_path_, report_name_, announced_, events_.carried()}; }
  static OutputFiles adopt(Carried carried, HelperProcesses& side);
  // The report is not being written.
  bool is_idle() const { return !desk_ || desk_->is_idle(); }

  bool keeps_events() const { return bool(events_); }
  bool keeps_report() const { return !report_path_.empty(); }
  // The event loop runs from now on; see EventFile::serve. Call `finish_events` at the end.
  void serve(asio::io_context& context, EventFile::Tell tell);
  void finish_events(std::function<void()> done) { events_.finish(std::move(done)); }

  // Identifies this node in the events; call once before the first.
  void begin(EventSource source) { event_log_.emplace(std::move(source)); }
  // Another program in this process has written the events of that round so far.
  void resume_round(const link::Sealed& sealed) {
    if (event_log_) (void)event_log_->line(WallTime{}, events::RoundSealed{sealed, {}});
  }
  // The line for an event at that time; empty before `begin`.
  std::string line(WallTime time, const events::Event& event);
  // Appends a line. If lines were dropped before it, an EventsLost line comes first.
  void append(const std::string& line);

  // At the start: replaces the report of an earlier run by a note that this job is running. Does
  // nothing if the report goes to a pipe or a device.
  Result<void> announce_report(const std::string& text);
  // The same from the event loop. A failure is not reported here: the final report will fail too
  // and report it.
  void announce_report_later(const std::string& text);
  // Writes the report atomically: readers never see a partial one. Returns its path. If another
  // node announced its report under the same name, `suffix` is appended to ours.
  Result<std::string> leave_report(const std::string& text, const std::string& suffix = "") const;
  // The same without blocking the event loop.
  using Left = std::function<void(const Result<std::string>& path)>;
  void leave_report_later(const std::string& text, const std::string& suffix, Left left);

 private:
  Result<void> try_report();
  Result<std::string> place_left(const Result<std::string>& left) const;

  std::string report_path_;
  std::string report_name_;  // as the user gave it, even if it is a link to one of our streams
  std::string announced_;    // text we wrote at the start, to detect another node's report
  Result<std::string> ask(const std::function<Result<std::string>()>& look, Duration timeout) const;

  HelperProcesses* side_ = nullptr;
  std::unique_ptr<AsyncTask> desk_;  // set if there are an event loop and a file on disk
  OwnStreams own_;
  EventFile events_;
  std::optional<EventLog> event_log_;
};

}  // namespace cpprun::io
