// SPDX-License-Identifier: BSD-3-Clause
// Worker statistics sent while a client watches the job. A heartbeat reply requests them and says
// for how long. During that time every change of a worker's state is sent at once.

#include "launcher/agent/agent.h"

namespace cpprun {

void Agent::look_at_workers(bool is_wanted, Actions& actions) {
  if (is_wanted) actions.emplace_back(agent::LookAtWorkers{supervisor_->workers()});
}

void Agent::on(TimePoint now, const agent::WorkersSeen& event, Actions& actions) {
  if (phase_ != Phase::running && phase_ != Phase::succeeded)
    return worker_stats_reporter_.nothing_seen();
  auto status =
      worker_stats_reporter_.tell(now, sealed_->round, supervisor_->workers(), event.sights);
  // Not repeated when a link resumes, because it describes this moment only.
  if (link_.up()) actions.emplace_back(agent::Say{std::move(status)});
}

}  // namespace cpprun
