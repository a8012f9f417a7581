// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The files of --report and --events (OutputFiles), and the way of events into theirs (EventFile).

#include <sys/types.h>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/io/disk_helper.h"
#include "launcher/report/event_log_json.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// Whether a reader, or deleting files, could cure it.
bool waiting_helps(int error_number);

// Whether there is no disk behind that path. Then this very process writes it, since another one
// has another /dev/stdout.
bool is_at_hand(const std::string& path);
// Where that is a symbolic link to such a path, that; else nothing. It looks at the disk.
std::string leads_at_hand(std::string path);

// The file of --events. Lines reach it whole and in order. If a pipe is not read or a disk is full,
// they wait, up to a limit, and follow as soon as there is room. Nothing here blocks: a file on a
// disk, which may hang, is written by a process of its own (write_events), through a pipe.
class EventFile {
 public:
  EventFile() = default;  // none is kept
  // Appended to; a pipe that nobody reads is refused, and so is a disk that does not answer.
  static Result<EventFile> open(const std::string& path, SideProcesses& side);

  explicit operator bool() const { return bool(file_); }

  // From now on a pipe that is full is written to again when it has room, and `tell` hears a
  // sentence of whatever goes wrong, once for each time that it begins. It stays where it is then,
  // and is gone before the context.
  using Tell = std::function<void(const std::string& sentence)>;
  void serve(asio::io_context& context, Tell tell);
  // After an error that no waiting cures, nothing more is written.
  void append(const std::string& line);
  // The end: `done` is called when everything is written or was given up.
  void finish(std::function<void()> done);

  // Lines that found no room even to wait, since this was asked last.
  std::size_t take_lost();
  bool all_written() const { return waiting_.empty(); }

 private:
  enum class Outcome { written, later, over };
  struct Service {
    Service(asio::io_context& context, Tell says)
        : room(context), news(context), timer(context), tell(std::move(says)) {}
    asio::posix::stream_descriptor room;
    asio::posix::stream_descriptor news;  // of the process that writes
    asio::steady_timer timer;
    Tell tell;
    std::function<void()> done;
  };

  Result<void> open_at_hand(const std::string& path);
  Outcome write_front();
  void write_waiting();
  void listen();
  void hear();
  void close();
  void complain(int error_number);
  void tell(const std::string& sentence) const;
  void end();

  FileDescriptor file_;  // or the pipe to the process that writes it
  FileDescriptor news_;  // from that; none where we write ourselves
  std::string path_;
  // Shared with the handlers that wait, which may outlive a move.
  std::shared_ptr<Service> service_;
  std::deque<std::string> waiting_;  // the rest of a line that a pipe took a part of comes first
  std::size_t waiting_bytes_ = 0;
  std::size_t lost_ = 0;
  bool complained_ = false;
  bool listening_ = false;  // for room in a pipe
  bool finishing_ = false;
  int error_number_ = 0;
};

// The other end of the file of --events, in a process of its own: writes the lines that come
// through a pipe, each whole, and waits with them for a disk that is full.
// Until the pipe ends. `news` is told the errno with which trouble begins, see HandedFile; when it
// is closed nobody waits for room any more.
void write_events(int file, int lines, int news);

// Our own stdout and stderr, by device and number.
using OwnStreams = std::vector<std::pair<dev_t, ino_t>>;

// The files of --report and --events. Both are tried before anything starts: a job must not find
// out after days that its report has nowhere to go. Their disks may hang, so side processes do the
// work, and nothing that ends workers waits for them.
class OutputFiles {
 public:
  OutputFiles() = default;  // keeps neither file
  // Empty paths: no such file is kept. Refuses what cannot be written, with the flag's name.
  // `side` is there for as long as they are.
  static Result<OutputFiles> open(const std::string& report_path, const std::string& events_path,
                                  SideProcesses& side);

  // Whether events could be written there, or why not; leaves nothing behind.
  static Result<void> try_events(const std::string& path, SideProcesses& side);

  bool keeps_events() const { return bool(events_); }
  bool keeps_report() const { return !report_path_.empty(); }
  // From now on there is an event loop; see EventFile::serve. `finish_events` at the end.
  void serve(asio::io_context& context, EventFile::Tell tell);
  void finish_events(std::function<void()> done) { events_.finish(std::move(done)); }

  // Whose events these are; called once before the first.
  void begin(EventSource source) { event_log_.emplace(std::move(source)); }
  // What is to be said of an event of that time; empty before `begin`.
  std::string line(WallTime time, const event_log::Event& event);
  std::string line(const event_log::Event& event);  // of now
  // Appends a line, with a word before it on how many found no room.
  void append(const std::string& line);

  // At the start: that this job runs. A later reader must not take an earlier run's end for ours.
  // Does nothing if the report goes into a pipe or a device.
  Result<void> announce_report(const std::string& text);
  // The same from the event loop. A failure is not reported: the final report will fail too, and
  // say so.
  void announce_report_later(const std::string& text);
  // Whole or not at all: readers never see half a report. Returns its path: if another node has
  // announced a report under the same name, ours gets that suffix.
  Result<std::string> leave_report(const std::string& text, const std::string& suffix = "") const;
  // The same from the event loop, which goes on meanwhile.
  using Left = std::function<void(const Result<std::string>& path)>;
  void leave_report_later(const std::string& text, const std::string& suffix, Left left);

 private:
  Result<void> try_report();
  Result<std::string> place_left(const std::optional<std::string>& answer) const;

  std::string report_path_;
  std::string report_name_;  // as the user said it, be it a link to a stream of ours
  std::string announced_;    // what the file says since the start, unless somebody else wrote there
  std::optional<std::string> ask(const std::function<std::string()>& look, Duration patience) const;

  SideProcesses* side_ = nullptr;
  std::unique_ptr<Inquiry> desk_;  // where there is an event loop, and a disk
  OwnStreams own_;
  EventFile events_;
  std::optional<EventLog> event_log_;
};

}  // namespace cpprun::io
