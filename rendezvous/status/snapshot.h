// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job and its nodes as they can be shown (JobSnapshot), and how far the job is (JobProgress).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/figures.h"
#include "proto/link/message.h"
#include "rendezvous/job/job.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

// One worker as its node described it.
struct WorkerSnapshot {
  Rank rank;
  link::WorkerFigures figures;  // its ages are those of now
  TimePoint at{};               // when its node said so
};

// A node's, in order of rank.
std::vector<WorkerSnapshot> workers_of(const Member& member, TimePoint now);

struct SlowWorker {
  WorkerSnapshot worker;
  GroupRank node;
  std::string host;
};

// How far a job is, from what its nodes have said of their workers: the extremes, and the ranks
// that are behind. Costs a look at every worker.
struct JobProgress {
  std::size_t workers = 0;  // that run and were told of
  std::size_t beating = 0;  // of those
  std::optional<std::int64_t> step_min = {};
  std::optional<std::int64_t> step_max = {};
  std::optional<std::int64_t> checkpoint_step = {};  // the latest that anybody has told of
  std::optional<std::int64_t> millisteps_per_second_min = {};
  std::optional<Duration> beat_age_max = {};
  std::optional<std::int64_t> resident_kib_max = {};
  std::optional<Duration> told_ago_max = {};  // the oldest of these figures
  std::vector<SlowWorker> slowest = {};       // a few
};

JobProgress progress_of(const Job& job, TimePoint now);

enum class JobState {
  gathering,  // waits for its nodes
  pausing,    // before a restart
  running,
  draining,  // its workers are being ended
  over,
};

// How many nodes are in each of Member's states.
struct NodeCounts {
  std::size_t waiting = 0;
  std::size_t running = 0;
  std::size_t succeeded = 0;
  std::size_t drained = 0;
  std::size_t away = 0;  // of those, whose link is broken and may come back
  friend bool operator==(const NodeCounts&, const NodeCounts&) = default;
};

// A job as it can be shown to somebody: one value, made from what the coordinator knows when
// somebody asks, and forgotten afterwards. A job in short costs the same whatever its size. Its
// nodes come in pages, so that ten thousand of them never hold anybody up.
struct JobSnapshot {
  JobTerms terms;
  JobState state = JobState::gathering;
  std::optional<TimePoint> since = {};  // nothing: nobody has come yet
  RoundNumber round{};                  // 0 before the first is sealed
  int restarts_used = 0;
  int restarts_left = 0;
  // Of each of the causes' purses, in the order of the terms; nothing: it has no bottom.
  std::vector<std::optional<int>> budgets_left = {};
  Duration lease{};
  // How long the node that has been silent for longest has been; nothing: nobody is watched.
  std::optional<Duration> silence_max = {};
  NodeCounts nodes;
  int world_size = 0;  // workers of the round that runs, or ran last
  std::map<std::string, std::size_t> failures_by_cause;
  std::map<std::string, std::size_t> restarts_by_cause;
  std::optional<link::Finish> finish = {};  // when it is over
  // These two cost most, and are there only where the job is measured.
  TimeUse time = {};  // of all nodes until now, or until it was over
  std::optional<JobProgress> progress = {};
};

// The same, and what costs more than a glance.
struct JobDetails {
  JobSnapshot job;
  std::string waits_for;  // in a sentence; empty where it waits for nothing
  std::string cover;      // what follows where the coordinator is lost, in a sentence
  // What the coordinator has to know of it would be there for the next; nothing: it keeps nothing.
  std::optional<bool> durable = {};
  std::vector<std::string> warnings = {};  // whose loss would end it, and what helps
  std::vector<RoundRecord> rounds;         // the one that runs is the last
  std::size_t rounds_left_out = 0;
};

struct NodeSnapshot {
  std::string host;
  std::optional<GroupRank> node = {};  // nothing: it has had no seat yet
  Member::State state = Member::State::waiting;
  TimePoint since{};
  std::optional<Duration> silence = {};  // since it was last heard; nothing: it is not watched
  bool connected = true;
  bool leaving = false;
  bool local = false;  // it lives in the coordinator's own process
  int pid = 0;         // of its agent
  int workers = 0;
  std::optional<Rank> base_rank = {};  // of its local rank 0
  std::string role;
  std::vector<WorkerSnapshot> ranks = {};  // of its workers, as far as they were asked for
};

// Behind which node the next page begins, in the order of their seats, and then of their links.
struct NodePlace {
  std::optional<GroupRank> node = {};
  LinkId link{};
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

struct NodePage {
  std::vector<NodeSnapshot> nodes;
  std::optional<NodePlace> next = {};  // nothing: these were the last
};

// In short: what a list of many jobs shows.
JobSnapshot snapshot_of(const Job& job, TimePoint now);
// The same with its progress, and where its time went.
JobSnapshot measured(const Job& job, TimePoint now);
// `daemon`: that hosts it; nothing: a cpprun does.
JobDetails details_of(const Job& job, TimePoint now,
                      const std::optional<DaemonSnapshot>& daemon = {});

// Which nodes are asked for.
struct NodeWish {
  std::optional<NodePlace> after = {};  // those behind that place
  std::size_t nodes_max = 0;
  bool with_ranks = true;
};
NodePage nodes_of(const Job& job, TimePoint now, const NodeWish& wish);

// "12" for a node that has a seat, "w345" for one that waits: a place as an address shows it.
std::string to_text(const NodePlace& place);
std::optional<NodePlace> node_place(std::string_view text);

std::string_view name_of(JobState state);
std::string_view name_of(Member::State state);

}  // namespace cpprun
