// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An event of docs/events.md as a line for people, and what cpprunctl itself needs to know of it.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/table.h"

namespace cpprun {

struct EventView {
  std::string job;
  std::string name;
  double time = 0;
  // Of a job's end.
  int exit_code = 0;
  std::string reason;
  std::string leader;  // of leader_changed: where the next one is met
  bool is_end() const { return name == "job_ended"; }
};

// Nothing where it is no event.
std::optional<EventView> event_view(std::string_view line);

// "12:03:04 seen 2 worker_exited  rank 1: SIGKILL (pid 7)", without a newline; the time of day as
// it is that many seconds east of Greenwich. The job is left out where it is known.
struct EventStyle {
  int utc_offset_seconds = 0;
  bool names_job = true;
  Canvas canvas;
};
std::string event_text(std::string_view line, const EventStyle& style);

}  // namespace cpprun
