// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// For the files that Job consists of: each that does something to a job keeps its time.

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
