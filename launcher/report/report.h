// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The report on a job that did not end well: what failed first, where, when and why, what followed
// from it, and where the logs are. Keeps the lines that scrapers of torchrun's output look for.
// Pure: text out of values.

#include <optional>
#include <string>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "launcher/report/attempts.h"
#include "launcher/report/leader_changes.h"
#include "proto/link/message.h"

namespace cpprun {

struct ReportFacts {
  std::string job;
  std::string entrypoint;             // ResolvedProgram::entrypoint
  std::vector<std::string> program;   // what the workers executed, argv by argv
  std::string interpreter;            // and by which Python; empty where by none
  std::string host;                   // this node's name
  GroupRank group_rank;               // this node's
  bool master = false;                // this node hosts the coordinator, or is the first one
  bool running = false;               // it has no end yet; with a reason it is being ended
  int pid = 0;                        // of this cpprun
  int exit_code = 0;                  // what cpprun returns
  int restarts = 0;                   // restarts the job had used
  WallTime started{};                 // when this cpprun began
  WallTime ended{};                   // and came to its end
  std::optional<link::Failure> root;  // what failed first in the whole job, as the coordinator says
  std::vector<DiagnosedEnd> ends;     // this node's workers that did not end with 0
  // What followed from the root anywhere, in the order of time; the count may be greater.
  std::vector<link::Consequence> consequences = {};
  int consequence_count = 0;
  std::optional<TimeUse> time = {};    // of all nodes, where the coordinator has said
  std::vector<Attempt> attempts = {};  // of the whole job, as this node knows them
  std::size_t attempts_left_out = 0;   // between the first and the last of them
  LeaderChanges leaders = {};          // of the cpprunds that have led it
  std::string reason;                  // Finish::reason, or why there is no root
  std::string logs;                    // the run folder; may be empty
  int utc_offset_seconds = 0;          // local time of this machine
  bool colour = false;
};

// For people, at the end of stderr: in full on the master and where the root cause happened, in a
// few lines on every other node.
std::string report(const ReportFacts& facts);

// The same as JSON for --report, of a job that ended well, too. docs/events.md has its members.
std::string report_json(const ReportFacts& facts);

// What this node saw of the root cause, if it happened here.
const DiagnosedEnd* own_root(const ReportFacts& facts);

// "2026-11-21_05:04:27", local time by the offset.
std::string local_time_text(WallTime time, int utc_offset_seconds);

}  // namespace cpprun
