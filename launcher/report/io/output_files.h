// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The files of --report and --events. Both are tried before anything starts: a job must not find
// out after days that its report has nowhere to go. Their disks may hang, so side processes do the
// work, and nothing that ends workers waits for them.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/io/inquiry.h"
#include "launcher/report/event_log.h"
#include "launcher/report/io/event_file.h"
#include "proto/result.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// Our own stdout and stderr, by device and number.
using OwnStreams = std::vector<std::pair<dev_t, ino_t>>;

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
