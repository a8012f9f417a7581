// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// For the source files of Job: every function that changes a job has one of these, so that the time
// accounting is updated when it returns.

#include "rendezvous/job/job.h"

namespace cpprun {

class Job::TimeKept {
 public:
  TimeKept(Job& job, TimePoint now) : job_(job), now_(now) {}
  ~TimeKept() { job_.place_time(now_); }
  TimeKept(const TimeKept&) = delete;
  TimeKept& operator=(const TimeKept&) = delete;

 private:
  Job& job_;
  const TimePoint now_;
};

}  // namespace cpprun
