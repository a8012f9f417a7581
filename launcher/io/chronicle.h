#pragma once
// The files of --report and --events. Both are tried before anything starts: a job of days must not
// find out at its end that there is no place for its report.

#include <optional>
#include <string>

#include "launcher/journal.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class Chronicle {
 public:
  Chronicle() = default;  // keeps neither file
  // Empty paths: no such file is kept. Refuses what cannot be written, with the flag's name.
  static Result<Chronicle> open(const std::string& report_path, const std::string& events_path);

  bool keeps_events() const { return bool(events_); }
  bool keeps_report() const { return !report_path_.empty(); }

  // Whose events these are; called once before the first.
  void begin(JournalKeeper keeper) { journal_.emplace(std::move(keeper)); }
  // What is to be said of an event, now; empty before `begin`.
  std::string line(const journal::Event& event);
  // Appends a line with one write, so that lines of several nodes in one file stay whole. The
  // first that cannot be written is refused aloud, the others are not even tried.
  Result<void> append(const std::string& line);

  // Whole or not at all: readers never see half a report.
  Result<void> leave_report(const std::string& text) const;

 private:
  std::string report_path_;
  std::string events_path_;
  FileDescriptor events_;
  std::optional<Journal> journal_;
};

}  // namespace cpprun::io
