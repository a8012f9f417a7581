// SPDX-License-Identifier: BSD-3-Clause
// A coordinator that is one of several daemons: what it has of jobs while another one leads, and
// how it goes on with that, or leaves its own.

#include <asio/post.hpp>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/io/coordinator_ports.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/coordinator/records.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

Moment clock_moment() {
  return {
      .now = boot_now(),
      .wall = std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now())};
}

}  // namespace

// Somebody else may lead from that moment on, be it that this process has slept through it.
bool CoordinatorServer::may_speak() {
  const bool may = !is_deposed_ && (!speaks_until_ || boot_now() < *speaks_until_);
  if (!may) has_kept_quiet_ = true;
  return may;
}

void CoordinatorServer::speak_until(std::optional<TimePoint> until) {
  speaks_until_ = until;
  if (!has_kept_quiet_ || !may_speak()) return;
  has_kept_quiet_ = false;
  const std::string reason =
      "it has not been told everything: this cpprund did not know for a "
      "moment that it leads";
  const auto channels = channels_;
  for (const auto& [link, channel] : channels) {
    // Its agent comes back for what it has missed, though nothing broke.
    missed_something_.insert(link);
    channel->hang_up(reason);
  }
}

void CoordinatorServer::wait_for(Keeping keeping, std::uint64_t number) {
  if (!is_deposed_) held_.wait_for(keeping, number);
}

// It is a link of an agent no more. Its first message is being heard: the rest is for later.
void CoordinatorServer::adopt_follower(LinkId link, const link::Follow& follow,
                                       const PeerAddress& peer, const std::string& owner) {
  asio::post(context_, [this, link, follow, peer, owner] {
    const auto found = channels_.extract(link);
    if (found.empty()) return;
    tell(Coordinator::Closed{link, "it is a cpprund that stands by"});
    callbacks_.follower(found.mapped(), follow, peer, owner);
  });
}

// --- it leads no more ----------------------------------------------------------------------------

std::map<std::string, std::string> CoordinatorServer::records() const {
  return all_records(coordinator_.machine(), clock_moment());
}

std::map<std::string, std::string> CoordinatorServer::follow(const Coordinator::Follows& follows) {
  std::map<std::string, std::string> kept;
  if (!coordinator_.machine().follows() && !is_deposed_) {
    // What was decided and not said yet is never said; nor what it is about to say, in the middle
    // of a decision.
    is_deposed_ = true;
    leave_open(held_.drop_all());
    has_kept_quiet_ = false;
    kept = records();
    for (const auto& [job, record] : kept) keep_as_replica(job);
    logs_.end_all();
  }
  tell(follows);
  return kept;
}

// Its workers are answered no more; what they have asked and what they were told stays.
void CoordinatorServer::keep_as_replica(const std::string& job) {
  const Job* const its = coordinator_.machine().find(job);
  const bool has_store =
      its != nullptr && its->terms().store_is_local && !its->has_lost_its_store() &&
      its->round().phase() != Round::Phase::gathering && job_ports_.contains(job);
  if (!has_store) return;
  auto replica = std::make_unique<Replica>();
  replica->round = its->round().number();
  replica->store = std::move(coordinator_.machine().store(job));
  replica->is_whole = true;
  const OpenPort& port = job_ports_.at(job);
  static_cast<JobPort&>(*port.host).keep(&replica->store);
  connections_.with_sessions(
      [&](StoreSessions& sessions) { sessions.begin_replay(port.listener.value); });
  replicas_[job] = std::move(replica);
}

// --- another one leads ---------------------------------------------------------------------------

Result<void> CoordinatorServer::open_replica_port(const std::string& job) {
  auto host = std::make_unique<JobPort>(*this, job);
  ListenOptions options = listen_;
  options.port = 0;
  options.streams_only = true;
  const auto listening = connections_.listen(*host, options);
  if (!listening) return tl::unexpected<Error>(listening.error());
  job_ports_[job] = {std::move(host), listening->id};
  return {};
}

Result<void> CoordinatorServer::begin_replica(const std::string& job, RoundNumber round) {
  end_replica(job);
  if (const auto opened = open_replica_port(job); !opened) return opened;
  auto replica = std::make_unique<Replica>();
  replica->round = round;
  const OpenPort& port = job_ports_.at(job);
  static_cast<JobPort&>(*port.host).keep(&replica->store);
  replica->replay = std::make_unique<StoreReplay>(StoreReplay::Place{.connections = connections_,
                                                                     .routes = routes_,
                                                                     .listener = port.listener,
                                                                     .store = replica->store,
                                                                     .job = job,
                                                                     .round = round});
  replicas_[job] = std::move(replica);
  return {};
}

Result<void> CoordinatorServer::add_to_replica(const std::string& job, std::string_view bytes) {
  const auto found = replicas_.find(job);
  if (found == replicas_.end() || found->second->replay == nullptr) return {};
  auto heard = found->second->replay->hear(bytes);
  if (!heard) end_replica(job);
  return heard;
}

void CoordinatorServer::replica_is_whole(const std::string& job) {
  if (const auto found = replicas_.find(job); found != replicas_.end()) {
    found->second->is_whole = true;
  }
}

void CoordinatorServer::end_replica(const std::string& job) {
  const auto replica = replicas_.extract(job);
  if (replica.empty()) return;
  close_store(job, "its store is kept elsewhere");
}

void CoordinatorServer::end_replicas(const std::map<std::string, std::string>& but_of) {
  std::vector<std::string> jobs;
  for (const auto& [job, replica] : replicas_) {
    if (!but_of.contains(job)) jobs.push_back(job);
  }
  for (const std::string& job : jobs) end_replica(job);
}

// --- it leads ------------------------------------------------------------------------------------

void CoordinatorServer::recover_hosts(std::vector<Exclusions::Entry> hosts) {
  tell(Coordinator::HostsExcluded{std::move(hosts)});
}

void CoordinatorServer::recover_with_replica(JobRecord record) {
  const std::string job = record.job();
  const auto found = replicas_.find(job);
  const bool has_store = found != replicas_.end() && found->second->is_whole &&
                         found->second->round == record.round &&
                         (found->second->replay == nullptr || found->second->replay->is_whole());
  if (!has_store) end_replica(job);
  const LinkId first = links_before(record);
  tell(Coordinator::Recovered{std::move(record), first, has_store});
}

void CoordinatorServer::restore_replica(const std::string& job, Replica& replica) {
  OpenPort& port = job_ports_.at(job);
  if (replica.replay != nullptr) {
    replica.replay->end();
  } else {
    connections_.with_sessions(
        [&](StoreSessions& sessions) { sessions.end_replay(port.listener.value); });
  }
  coordinator_.machine().store(job) = std::move(replica.store);
  static_cast<JobPort&>(*port.host).keep(nullptr);
  logs_.go_on(job, replica.round, replica.replay.get());
}

}  // namespace cpprun
