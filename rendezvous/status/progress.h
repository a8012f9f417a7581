// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How far a job is, from what its nodes have said of their workers: the extremes, and the ranks
// that are behind. Costs a look at every worker.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/figures.h"
#include "rendezvous/job/job.h"

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

}  // namespace cpprun
