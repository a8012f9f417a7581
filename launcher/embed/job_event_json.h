// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An event of a job (docs/events.md) for programs that embed cpprun.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

struct JobEvent {
  std::string name;  // "worker_exited"
  double time = 0;   // seconds since 1970
  std::string job;
  std::string host;
  std::optional<std::int64_t> node;
  std::int64_t round = 0;
  // Of a worker, or of the failed worker in the event.
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> local_rank;
  std::optional<std::int64_t> pid;
  // Of the job, or of a worker.
  std::optional<std::int64_t> exit_code;
  std::optional<std::string> signal;
  std::optional<std::string> reason;
  // Of the failure in the event.
  std::optional<std::string> cause;
  std::optional<std::string> description;
  std::optional<std::string> message;
  std::optional<std::string> hint;
  bool is_consequence = false;
  std::string json;  // the line that was read
};

// Reads a line of an event file or event stream; nothing if it is not an event.
std::optional<JobEvent> read_job_event(std::string_view line);

}  // namespace cpprun
