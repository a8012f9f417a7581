// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/ended_jobs.h"

#include <utility>

namespace cpprun {

void EndedJobs::add(TimePoint now, JobSnapshot job) {
  forget(job.terms.id);
  job.silence_max.reset();  // nobody is watched any more
  ended_.push_back({now, std::move(job)});
  if (ended_.size() > ended_jobs_told_max) ended_.pop_front();
}

void EndedJobs::forget(const std::string& id) {
  std::erase_if(ended_, [&](const Ended& each) { return each.job.terms.id == id; });
}

std::vector<JobSnapshot> EndedJobs::told(TimePoint now) const {
  std::vector<JobSnapshot> jobs;
  for (const Ended& each : ended_) {
    if (now - each.at < ended_job_told) jobs.push_back(each.job);
  }
  return jobs;
}

}  // namespace cpprun
