// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The files of --report and --events. Both are tried before anything starts: a job of days must not
// find out at its end that there is no place for its report.

#include <optional>
#include <string>

#include "launcher/report/event_log.h"
#include "launcher/report/io/event_file.h"
#include "proto/result.h"

namespace cpprun::io {

class OutputFiles {
 public:
  OutputFiles() = default;  // keeps neither file
  // Empty paths: no such file is kept. Refuses what cannot be written, with the flag's name.
  static Result<OutputFiles> open(const std::string& report_path, const std::string& events_path);

  bool keeps_events() const { return bool(events_); }
  // See EventFile::serve; `finish` at the end.
  void serve_events(asio::io_context& context) { events_.serve(context); }
  void finish_events() { events_.finish(); }
  bool keeps_report() const { return !report_path_.empty(); }

  // Whose events these are; called once before the first.
  void begin(EventSource source) { event_log_.emplace(std::move(source)); }
  // What is to be said of an event, now; empty before `begin`.
  std::string line(const event_log::Event& event);
  // Appends a line, with a word before it on how many found no room. An error is for people, told
  // once.
  Result<void> append(const std::string& line);

  // At the start: that this job runs. Whoever reads the file later must not take an earlier one's
  // end for ours. Nothing where the report goes into a pipe or a device.
  Result<void> announce_report(const std::string& text);
  // Whole or not at all: readers never see half a report. Gives where it is: where another node
  // has announced its own under the same name, beside it, at the name with that suffix.
  Result<std::string> leave_report(const std::string& text, const std::string& suffix = "") const;

 private:
  // Whether nobody has written over what we announced.
  bool report_is_ours() const;

  std::string report_path_;
  std::string announced_;  // what the file says since the start, unless somebody else wrote there
  EventFile events_;
  std::optional<EventLog> event_log_;
};

}  // namespace cpprun::io
