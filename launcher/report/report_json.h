// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// JSON of this directory: the events of a job for --events, one object per line, and failures,
// which are the same in the events and in the report. docs/events.md has the schema. Pure.

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>

#include "launcher/report/events.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

// The members that every failure has: rank, local_rank, node, host, pid, exit_code, signal, time,
// message, cause, reason, advice, consequence.
nlohmann::ordered_json to_json(const link::Failure& failure, const std::string& executable);

// A message for a member of JSON: "fact\n  hint: what to do" becomes "fact; what to do".
std::string on_one_line(std::string message);

// Identifies the node in every line, so that logs of several nodes can be merged.
struct EventSource {
  std::string job;
  std::string host;
  std::string executable;
};

// Whether the event file has this event; the others are for the console or the report.
bool is_logged(const events::Event& event);

// Formats the events of a job for --events: one line each, for monitoring tools.
class EventLog {
 public:
  explicit EventLog(EventSource source) : source_(std::move(source)) {}

  // One line with its newline. Round and node are those of the last RoundSealed.
  std::string line(WallTime time, const events::Event& event);

 private:
  EventSource source_;
  RoundNumber round_{};
  GroupRank group_rank_{};
};

}  // namespace cpprun
