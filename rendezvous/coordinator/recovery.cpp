// SPDX-License-Identifier: BSD-3-Clause
// The part of Coordinator that takes over the jobs of a coordinator that has ended, and keeps
// records of its own jobs for a successor.

#include <fmt/format.h>

#include "rendezvous/coordinator/coordinator.h"

namespace cpprun {

JobRecord Coordinator::record_of(const std::string& job) const {
  const Entry& entry = *jobs_.at(job);
  JobRecord record = entry.job.record();
  record.founder = entry.founder;
  record.owner = entry.owner;
  return record;
}

// Inserted before the first action that follows from the change. A node that has received a
// decision then finds, when it reconnects, a coordinator that knows it too.
void Coordinator::keep(const std::string& job, Entry& entry, std::size_t said_before,
                       Actions& actions) {
  const std::uint64_t steps = entry.job.steps();
  if (steps == entry.kept) return;
  entry.kept = steps;
  actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(said_before),
                 coordinator::KeepRecord{job});
}

// As if its first node had just connected: the job exists once its store is ready.
void Coordinator::on(TimePoint, const Recovered& event, Actions& actions) {
  const JobRecord& record = event.record;
  const std::string& job = record.job();
  if (options_.only || jobs_.contains(job) || awaiting_store_.contains(job)) return;
  places_.take(record.founder);
  awaiting_store_[job] = {record.founder, record.owner, {}, event};
  actions.emplace_back(coordinator::OpenStore{job, record.nodes.front().join.store_is_local});
}

void Coordinator::on(TimePoint now, const StoreLost& event, Actions& actions) {
  const auto found = jobs_.find(event.job);
  if (found == jobs_.end()) return;
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("job \"{}\": the store of its round cannot be gone on with: {}",
                          event.job, event.reason),
      .level = LogLevel::warning});
  const std::size_t said_before = actions.size();
  found->second->store.clear();
  found->second->job.lose_store(now, actions);
  look_after(event.job, said_before, actions);
}

void Coordinator::on(TimePoint now, const HostsExcluded& event, Actions& actions) {
  if (options_.only) return;
  exclusions_ = Exclusions{event.hosts};
  const std::string hosts = exclusions_.list(now);
  keep_hosts(actions);  // keeps them here too, or deletes the record if all have expired
  if (hosts.empty()) return;
  actions.emplace_back(
      coordinator::Note{fmt::format("excluded from all jobs to come, as before: {}", hosts)});
}

void Coordinator::recover(TimePoint now, const StoreReady& event, Beginning begins,
                          Actions& actions) {
  const JobRecord& record = begins.before->record;
  const link::Join& first = record.nodes.front().join;
  const auto entry = jobs_.emplace(
      event.job,
      std::make_unique<Entry>(Entry{Job{now, record, options_of(first, event.port),
                                        begins.before->first_link, begins.before->has_store},
                                    Store{}, begins.founder, begins.owner, 0}));
  Job& job = entry.first->second->job;
  actions.emplace_back(coordinator::Note{
      job.over() ? fmt::format("job \"{}\" is over, and {} of its nodes may not know it yet",
                               event.job, job.round().size())
                 : fmt::format("job \"{}\" goes on: its {} nodes have {} s to come back", event.job,
                               job.round().size(), in_seconds(job.lease()))});
  if (begins.before->has_store) actions.emplace_back(coordinator::RestoreStore{event.job});
  const std::size_t said_before = actions.size();
  for (const Newcomer& each : begins.nodes) enter(now, *entry.first->second, each, actions);
  look_after(event.job, said_before, actions);
}

}  // namespace cpprun
