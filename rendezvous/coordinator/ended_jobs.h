// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a daemon's last jobs ended, for Prometheus, which looks four times a minute: a job itself is
// forgotten with its last node. Kept for a while and in small number; nothing here wakes anybody
// up.

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/status/snapshot.h"

namespace cpprun {

// Several looks of Prometheus, and as many jobs as might end together; 2 KiB each.
inline constexpr Duration ended_job_told = std::chrono::minutes(10);
inline constexpr std::size_t ended_jobs_told_max = 64;

class EndedJobs {
 public:
  // A job is over since then. One of that name that has ended before is told of no more.
  void add(TimePoint now, JobSnapshot job);
  // A job of that name has begun.
  void forget(const std::string& id);
  // In the order in which they ended.
  std::vector<JobSnapshot> told(TimePoint now) const;

 private:
  struct Ended {
    TimePoint at{};
    JobSnapshot job;
  };
  std::deque<Ended> ended_;  // Invariant: each name once.
};

}  // namespace cpprun
