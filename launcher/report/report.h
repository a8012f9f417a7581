// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The report on a job that failed, and the attempts that it lists (Attempts).

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "launcher/report/events.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

struct Attempt {
  RoundNumber round;
  int restart = 0;
  WallTime began{};
  WallTime ended{};    // when the next attempt began or the job ended
  std::string reason;  // why its workers were stopped; empty if they were not
  // The first failure, as judged by the coordinator. Without its judgment, the best known failure
  // of this node's own workers.
  std::optional<link::Failure> failure = {};
  int worker_restarts = 0;  // of single workers of this node (--restart-scope=worker)
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// The outcome of every attempt of a job, as known on this node. A job that succeeds at its ninth
// attempt has eight failures to report. Bounded: keeps the first attempts, which show how it began,
// and the last.
class Attempts {
 public:
  // A new attempt begins. The coordinator's judgment on the previous one replaces what this node
  // knows.
  void begin(WallTime now, const link::Sealed& sealed);
  // The running attempt is being stopped; only the first reason is kept.
  void draining(const std::string& reason);
  // A worker of this node failed. A known consequence is replaced by a later failure that is none.
  void failed(const link::Failure& failure);
  // That worker is started again alone: its failure did not end the attempt.
  void worker_restarted(Rank rank);
  // The coordinator has judged the attempt that ended last.
  void judged(const link::Failure& root);

  // The kept attempts; the last one is taken as ended `now`.
  std::vector<Attempt> list(WallTime now) const;
  std::size_t left_out() const { return left_out_; }
  // For another object that continues: the attempts as they are.
  const std::vector<Attempt>& kept() const { return attempts_; }
  void resume(std::vector<Attempt> attempts, std::size_t left_out) {
    attempts_ = std::move(attempts);
    left_out_ = left_out;
  }

 private:
  std::vector<Attempt> attempts_;
  std::size_t left_out_ = 0;
};

inline constexpr std::size_t leader_changes_max = 100;

// The input of the report on a job that failed: what failed first, where, when and why, its
// consequences, and where the logs are. The report keeps the lines that tools for torchrun's output
// look for. Its creator knows the run; hear() adds what happens to the job. Pure.
struct ReportFacts {
  std::string job;
  std::string entrypoint;             // ResolvedProgram::entrypoint
  std::vector<std::string> program;   // argv of the workers
  std::string interpreter;            // the Python that ran it; empty: none
  std::string host;                   // this node's name
  GroupRank group_rank;               // this node's, once the job has ended
  bool master = false;                // this node hosts the coordinator, or is node 0
  bool running = false;               // still running; with a reason: being stopped
  int pid = 0;                        // of this cpprun
  int exit_code = 0;                  // exit code of cpprun
  int restarts = 0;                   // restarts used so far
  WallTime started{};                 // when this cpprun started
  WallTime ended{};                   // and when it ended
  std::optional<link::Failure> root;  // the job's first failure, as judged by the coordinator
  std::vector<DiagnosedEnd> ends;     // this node's workers that failed, in the current attempt
  // Consequences of the root on all nodes, by time. The list is limited; the count is not.
  std::vector<link::Consequence> consequences = {};
  int consequence_count = 0;
  std::optional<TimeUse> time = {};  // of all nodes, if the coordinator sent it
  Attempts attempts = {};            // of the whole job, as known on this node
  // Changes of the leader that this node noticed: the last ones, and how many came before.
  std::vector<std::pair<WallTime, events::LeaderChanged>> leader_changes = {};
  std::size_t leader_changes_left_out = 0;
  std::optional<events::HangFound> hang = {};  // of the last round, if the job hung
  std::string reason;                          // JobEnded::reason, or why there is no root
  std::string logs;                            // the run directory; may be empty
  int utc_offset_seconds = 0;                  // offset of this machine's local time
  bool colour = false;

  void hear(WallTime now, const events::Event& event);
};

// For the end of stderr: in full on the coordinator's node and on the node of the root cause, one
// line on every other node. The cause is last, where a terminal shows it above the prompt.
std::string report(const ReportFacts& facts);

// The same as JSON for --report, also for jobs that succeeded. docs/events.md has its members.
std::string report_json(const ReportFacts& facts);

// The failure of this node's worker that is the root cause; null if it happened elsewhere.
const DiagnosedEnd* own_root(const ReportFacts& facts);

// "2026-11-21_05:04:27", local time with that offset: the format of torchrun's report.
std::string local_time_text(WallTime time, int utc_offset_seconds);

}  // namespace cpprun
