// SPDX-License-Identifier: BSD-3-Clause
// The replicas of stores in a simulated cpprund that is not the leader, as in CoordinatorServer.

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/store_sessions.h"
#include "tests/sim/hosted_stores_inside.h"

namespace cpprun::sim {

Result<void> HostedStores::begin_replica(const std::string& job, RoundNumber round) {
  if (!served_) return {};
  end_replica(job);
  listen(job);
  auto replica = std::make_unique<Replica>(Replica{.round = round});
  Job& its = served_->jobs.at(job);
  its.host->keep(&replica->store);
  replica->replay =
      std::make_unique<StoreReplay>(StoreReplay::Context{.connections = served_->connections,
                                                         .routes = served_->routes,
                                                         .listener = its.listener,
                                                         .store = replica->store,
                                                         .job = job,
                                                         .round = round});
  served_->replicas[job] = std::move(replica);
  return {};
}

Result<void> HostedStores::add_to_replica(const std::string& job, std::string_view bytes) {
  if (!served_) return {};
  const auto found = served_->replicas.find(job);
  if (found == served_->replicas.end() || found->second->replay == nullptr) return {};
  auto heard = found->second->replay->hear(bytes);
  universe_.judge.must(
      heard.has_value(),
      heard ? "" : "the log of a leader cannot be replayed: " + heard.error().reason);
  if (!heard) end_replica(job);
  look();
  return heard;
}

void HostedStores::replica_is_whole(const std::string& job) {
  if (has_replica(job)) served_->replicas.at(job)->is_whole = true;
}

void HostedStores::end_replica(const std::string& job) {
  if (!has_replica(job)) return;
  const auto replica = served_->replicas.extract(job);
  close(job, "this replica of the store was dropped");
}

void HostedStores::end_replicas(const std::map<std::string, std::string>& but_of) {
  if (!served_) return;
  std::vector<std::string> jobs;
  for (const auto& [job, replica] : served_->replicas) {
    if (!but_of.contains(job)) jobs.push_back(job);
  }
  for (const std::string& job : jobs) end_replica(job);
}

bool HostedStores::has_replica(const std::string& job) const {
  return served_ && served_->replicas.contains(job);
}

bool HostedStores::has_whole_replica(const std::string& job, RoundNumber round) const {
  if (!has_replica(job)) return false;
  const Replica& replica = *served_->replicas.at(job);
  return replica.is_whole && replica.round == round &&
         (replica.replay == nullptr || replica.replay->is_whole());
}

void HostedStores::restore_replica(const std::string& job) {
  const auto node = served_->replicas.extract(job);
  Replica& replica = *node.mapped();
  Job& its = served_->jobs.at(job);
  if (replica.replay != nullptr) {
    replica.replay->end();
  } else {
    served_->connections.with_sessions(
        [&](StoreSessions& sessions) { sessions.end_replay(its.listener.value); });
  }
  hooks_.coordinator()->store(job) = std::move(replica.store);
  its.host->keep(nullptr);
  its.round = hooks_.round_of(job);
  // The next round may be sealed in the same step.
  if (its.round) its.round->second.number = replica.round;
  served_->logs.go_on(job, replica.round, replica.replay.get());
  look();
}

void HostedStores::keep_as_replica(const std::string& job) {
  if (!served_ || !served_->jobs.contains(job)) return;
  Job& its = served_->jobs.at(job);
  auto replica = std::make_unique<Replica>(
      Replica{.round = hooks_.coordinator()->find(job)->round().number(), .is_whole = true});
  replica->store = std::move(hooks_.coordinator()->store(job));
  its.host->keep(&replica->store);
  its.round.reset();
  served_->connections.with_sessions(
      [&](StoreSessions& sessions) { sessions.begin_replay(its.listener.value); });
  served_->replicas[job] = std::move(replica);
}

void HostedStores::leave_logs() {
  if (served_) served_->logs.end_all();
}

StoreLogs& HostedStores::logs() {
  return served_->logs;
}

}  // namespace cpprun::sim
