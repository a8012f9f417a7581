// SPDX-License-Identifier: BSD-3-Clause
// What the agent tells of its workers while somebody looks at the job. It is asked by an answer to
// its heartbeat, and for as long as that says it tells every change of a worker's state at once.

#include "launcher/agent/agent.h"

namespace cpprun {

void Agent::look_at_workers(bool is_wanted, Actions& actions) {
  if (is_wanted) actions.emplace_back(agent::LookAtWorkers{supervisor_->workers()});
}

void Agent::on(TimePoint now, const agent::WorkersSeen& event, Actions& actions) {
  if (phase_ != Phase::running && phase_ != Phase::succeeded) return told_figures_.nothing_seen();
  auto status = told_figures_.tell(now, sealed_->round, supervisor_->workers(), event.sights);
  // Not among what is said again when a link resumes: it is about this moment.
  if (link_.up()) actions.emplace_back(agent::Say{std::move(status)});
}

}  // namespace cpprun
