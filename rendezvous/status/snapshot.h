// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Read-only views of a job and its nodes (JobSnapshot) and of a job's progress (JobProgress).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/job.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

// One worker as its node last reported it.
struct WorkerSnapshot {
  Rank rank;
  link::WorkerStats figures;  // ages are extrapolated to now
  TimePoint at{};             // when the node reported it
};

// The workers of a node, ordered by rank.
std::vector<WorkerSnapshot> workers_of(const Member& member, TimePoint now);

struct SlowWorker {
  WorkerSnapshot worker;
  GroupRank node;
  std::string host;
};

// One of the training's own numbers, from the lowest rank that reports it.
struct MetricSnapshot {
  link::Metric metric;
  Rank rank;
};

// A job's progress from what its nodes reported of their workers: minima, maxima and the slowest
// ranks. Costs a pass over all workers.
struct JobProgress {
  std::size_t workers = 0;  // running and reported
  std::size_t beating = 0;  // of those, how many have sent a heartbeat
  std::optional<std::int64_t> step_min = {};
  std::optional<std::int64_t> step_max = {};
  std::optional<std::int64_t> checkpoint_step = {};  // the latest that any worker reported
  std::optional<std::int64_t> total = {};            // the most steps that any worker plans
  std::optional<Duration> remaining = {};            // for the slowest, at its current speed
  std::optional<std::int64_t> millisteps_per_second_min = {};
  std::optional<Duration> beat_age_max = {};
  std::optional<std::int64_t> resident_kib_max = {};
  std::optional<Duration> told_ago_max = {};  // age of the oldest report
  std::vector<SlowWorker> slowest = {};       // at most 5
  std::vector<MetricSnapshot> metrics = {};   // ordered by name; at most metrics_shown_max
};

JobProgress progress_of(const Job& job, TimePoint now);

enum class JobState {
  gathering,  // waits for nodes
  pausing,    // before a restart
  running,
  draining,  // its workers are being stopped
  over,
};

// How many nodes are in each of Member's states.
struct NodeCounts {
  std::size_t waiting = 0;
  std::size_t running = 0;
  std::size_t succeeded = 0;
  std::size_t drained = 0;
  std::size_t away = 0;  // of all of these: disconnected, may reconnect
  friend bool operator==(const NodeCounts&, const NodeCounts&) = default;
};

// A job's status, built from the coordinator's state for one request and dropped afterwards. This
// summary costs the same whatever the job's size. Nodes are paginated, so that ten thousand of them
// do not stall the event loop.
struct JobSnapshot {
  JobTerms terms;
  JobState state = JobState::gathering;
  std::optional<TimePoint> since = {};  // empty: no node has joined yet
  RoundNumber round{};                  // 0: no round has been sealed yet
  int restarts_used = 0;
  int restarts_left = 0;
  // Restarts left in each per-cause budget, in the order of the terms; empty: unlimited.
  std::vector<std::optional<int>> budgets_left = {};
  Duration lease{};
  // The longest time since any watched node was last heard; empty: no node is watched.
  std::optional<Duration> silence_max = {};
  NodeCounts nodes;
  int world_size = 0;  // workers of the current round, or of the last one
  std::map<std::string, std::size_t> failures_by_cause;
  std::map<std::string, std::size_t> restarts_by_cause;
  std::optional<link::Finish> finish = {};  // set when the job is over
  // The next two are expensive; only measured() and details_of() fill them in.
  TimeUse time = {};  // of all nodes, until now or until the end of the job
  std::optional<JobProgress> progress = {};
};

// The summary and what is more expensive to compute.
struct JobDetails {
  JobSnapshot job;
  std::string waits_for;  // a sentence; empty if it waits for nothing
  std::string cover;      // a sentence: what happens if the coordinator is lost
  // Whether the coordinator's state of this job would survive for a successor; empty: it keeps no
  // state.
  std::optional<bool> durable = {};
  std::vector<std::string> warnings = {};  // whose loss would end the job, with hints
  std::vector<RoundRecord> rounds;         // the current one is the last
  std::size_t rounds_left_out = 0;
};

struct NodeSnapshot {
  std::string host;
  std::optional<GroupRank> node = {};  // empty: not in a round yet
  Member::State state = Member::State::waiting;
  TimePoint since{};
  std::optional<Duration> silence = {};  // since it was last heard; empty: it is not watched
  bool connected = true;
  bool leaving = false;
  bool local = false;  // it runs in the coordinator's own process
  int pid = 0;         // the agent's
  int workers = 0;
  std::optional<Rank> base_rank = {};  // the rank of its local rank 0
  std::string role;
  std::optional<link::Upgraded> upgrade = {};  // the latest of its agent
  std::vector<WorkerSnapshot> ranks = {};      // its workers, if requested
};

// Position of a node in the listing, which is ordered by group rank and then by link. The next page
// starts behind it.
struct NodePosition {
  std::optional<GroupRank> node = {};
  LinkId link{};
  friend bool operator==(const NodePosition&, const NodePosition&) = default;
};

struct NodePage {
  std::vector<NodeSnapshot> nodes;
  std::optional<NodePosition> next = {};  // empty: this was the last page
};

// The summary that a list of many jobs shows.
JobSnapshot snapshot_of(const Job& job, TimePoint now);
// The summary with progress and use of time.
JobSnapshot measured(const Job& job, TimePoint now);
// `daemon` is the cpprund that hosts the job; empty in a cpprun.
JobDetails details_of(const Job& job, TimePoint now,
                      const std::optional<DaemonSnapshot>& daemon = {});

// Selects a page of nodes.
struct NodeFilter {
  std::optional<NodePosition> after = {};  // start behind this position; empty: at the first
  std::size_t nodes_max = 0;
  bool with_ranks = true;
};
NodePage nodes_of(const Job& job, TimePoint now, const NodeFilter& filter);

// "12" for a node with a group rank, "w345" for a waiting one: a position as it appears in a URL.
std::string to_text(const NodePosition& place);
std::optional<NodePosition> node_place(std::string_view text);

std::string_view name_of(JobState state);
std::string_view name_of(Member::State state);

}  // namespace cpprun
