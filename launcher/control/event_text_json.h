// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Formats an event of docs/events.md for people, and extracts the fields that cpprunctl itself
// needs.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/table.h"

namespace cpprun {

struct EventView {
  std::string job;
  std::string name;
  double time = 0;
  // For the end of a job.
  int exit_code = 0;
  std::string reason;
  std::string leader;  // for leader_changed: the new leader's address
  bool is_end() const { return name == "job_ended"; }
};

// None if the line is not an event.
std::optional<EventView> event_view(std::string_view line);

// "12:03:04 seen 2 worker_exited  rank 1: SIGKILL (pid 7)", without a newline. The time of day is
// shifted by utc_offset_seconds. The job is omitted if it is known from the context.
struct EventStyle {
  int utc_offset_seconds = 0;
  bool names_job = true;
  Canvas canvas;
};
std::string event_text(std::string_view line, const EventStyle& style);

}  // namespace cpprun
