// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The report on a job that did not end well, and what it remembers: the attempts (Attempts) and
// changes of the leader (LeaderChanges).

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

struct Attempt {
  RoundNumber round;
  int restart = 0;
  WallTime began{};
  WallTime ended{};    // when the next one began, or the job ended
  std::string reason;  // why its workers were ended; empty where they were not
  // What failed first, as the coordinator says; where it has said nothing, what is known of this
  // node's own workers.
  std::optional<link::Failure> failure = {};
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// What became of every attempt of a job, as this node knows it, for the report: a job that succeeds
// at its ninth attempt has eight failures to tell of. Bounded: the first ones, which show how it
// began, and the last.
class Attempts {
 public:
  // What the coordinator says of the attempt before replaces what this node knows of it.
  void begin(WallTime now, const link::Sealed& sealed);
  // The one that runs is being ended, for that reason; the first one counts.
  void draining(const std::string& reason);
  // A worker of this node ended badly. A known consequence counts only while there is nothing
  // better.
  void failed(const link::Failure& failure);
  // The coordinator has judged the one that ended last.
  void judged(const link::Failure& root);

  // All that are kept, the last of them ended now.
  std::vector<Attempt> list(WallTime now) const;
  std::size_t left_out() const { return left_out_; }

 private:
  std::vector<Attempt> attempts_;
  std::size_t left_out_ = 0;
};

inline constexpr std::size_t leader_changes_max = 100;

// How often another cpprund has led the job than before, as this node has known it, for the report.
// Bounded: the last ones are kept.
class LeaderChanges {
 public:
  void add(LeaderChange change);

  const std::vector<LeaderChange>& list() const { return changes_; }
  std::size_t left_out() const { return left_out_; }  // before those

 private:
  std::vector<LeaderChange> changes_;
  std::size_t left_out_ = 0;
};

// The report on a job that did not end well: what failed first, where, when and why, what followed
// from it, and where the logs are. Keeps the lines that scrapers of torchrun's output look for.
// Pure: text out of values.

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
