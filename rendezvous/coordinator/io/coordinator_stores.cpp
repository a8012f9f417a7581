// SPDX-License-Identifier: BSD-3-Clause
// The ways to the jobs' stores: a port of its own for each of a daemon's jobs, or the links of a
// job's nodes, or a port of loopback for the workers of this machine.

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/coordinator/io/coordinator_ports.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/coordinator/io/store_replay.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun {

void CoordinatorServer::open_store(const std::string& job, bool is_local) {
  if (replicas_.contains(job)) {
    asio::post(context_, [this, job] { tell(Coordinator::StoreReady{job, listen_.port}); });
    return;
  }
  auto host = std::make_unique<JobPort>(*this, job);
  ListenOptions any_port = listen_;
  any_port.port = 0;
  any_port.streams_only = is_local;
  auto listening = connections_.listen(*host, any_port);
  // Nobody connects to it: where a number is to be named, it is that of the links.
  if (listening && is_local) listening->port = listen_.port;
  // The answer is an event of its own: the coordinator is still in the middle of what led here.
  asio::post(context_, [this, job, listening] {
    if (listening) {
      tell(Coordinator::StoreReady{job, listening->port});
    } else {
      tell(Coordinator::StoreFailed{job, listening.error().reason});
    }
  });
  if (listening) job_ports_[job] = {std::move(host), listening->id};
}

void CoordinatorServer::close_store(const std::string& job, const std::string& reason) {
  logs_before_.erase(job);
  if (job_ports_.contains(job)) logs_.end(job);
  routes_.forget(job);
  const auto port = job_ports_.extract(job);
  if (!port.empty()) connections_.stop_listening(port.mapped().listener, reason);
}

void CoordinatorServer::reset_store(const coordinator::ResetStore& reset) {
  store_was_asked_ = false;
  // What was decided together with this may have brought back what the round before had.
  if (coordinator_.machine().knows(reset.job)) coordinator_.machine().store(reset.job).clear();
  if (job_ports_.contains(reset.job)) logs_.end(reset.job);
  routes_.forget(reset.job);
  connections_.close_clients(job_ports_.at(reset.job).listener, reset.reason);
  if (local_port_.host) connections_.close_clients(local_port_.listener, reset.reason);
  const Job* const job = coordinator_.machine().find(reset.job);
  if (is_deposed_) return;
  if (job != nullptr && job->terms().store_is_local) logs_.begin(reset.job, job->round().number());
}

// Before any of its nodes is heard.
void CoordinatorServer::restore_store(const std::string& job) {
  if (const auto replica = replicas_.extract(job); !replica.empty()) {
    return restore_replica(job, *replica.mapped());
  }
  const auto log = logs_before_.extract(job);
  const Job* const its = coordinator_.machine().find(job);
  if (log.empty() || its == nullptr) return;
  const RoundNumber round = its->round().number();
  StoreReplay replay({.connections = connections_,
                      .routes = routes_,
                      .listener = job_ports_.at(job).listener,
                      .store = coordinator_.machine().store(job),
                      .job = job,
                      .round = round});
  const Result<void> heard = replay.hear(log.mapped());
  replay.end();
  if (heard && replay.is_whole()) return logs_.go_on(job, round, &replay);
  routes_.forget(job);
  connections_.close_clients(job_ports_.at(job).listener, "the store of its round is lost");
  tell(Coordinator::StoreLost{job, heard ? "its log ends in the middle" : heard.error().reason});
}

void CoordinatorServer::note_asked(const std::string& job) {
  store_was_asked_ = true;
  const Job* const its = coordinator_.machine().find(job);
  if (its != nullptr && !its->time().training()) tell(Coordinator::StoreAsked{job});
}

Result<int> CoordinatorServer::open_local_store() {
  auto host = std::make_unique<LocalPort>(*this, job_ports_.begin()->first);
  const auto listening = connections_.listen(*host, {.host = "127.0.0.1", .port = 0});
  if (!listening) return tl::unexpected<Error>(listening.error());
  host->set_port(listening->port);
  local_port_ = {std::move(host), listening->id};
  return listening->port;
}

// --- through links -------------------------------------------------------------------------------

StreamRoutes::Callbacks CoordinatorServer::callbacks_of_routes() {
  const auto channel_of = [this](LinkId link) {
    const auto found = channels_.find(link);
    return found == channels_.end() ? nullptr : found->second.get();
  };
  return {
      .seat_of = [this](LinkId link) { return coordinator_.machine().seat_of(link); },
      .listener_of = [this](const std::string& job) { return job_ports_.at(job).listener; },
      .loop = {.has_room =
                   [this, channel_of](LinkId link) {
                     const LinkChannel* const channel = channel_of(link);
                     return channel != nullptr && channel->has_room() &&
                            held_.bytes_for(link) < bounds::held_link_bytes_max;
                   },
               .send = [this](LinkId link, std::string_view frame) { send_streams(link, frame); },
               .soon = [this](std::function<void()> what) { asio::post(context_, what); },
               .now = boot_now},
      .log_of = [this](const std::string& job) { return logs_.log_of(job); }};
}

StoreLogs::Callbacks CoordinatorServer::callbacks_of_logs() {
  return {.listener_of = [this](const std::string& job) { return job_ports_.at(job).listener; },
          .store_of = [this](const std::string& job) -> const Store& {
            return coordinator_.machine().store(job);
          },
          .soon = [this](std::function<void()> what) { asio::post(context_, std::move(what)); }};
}

std::string CoordinatorServer::hear_streams(LinkId link, const PeerAddress& peer,
                                            std::string_view frame) {
  std::string reason = routes_.hear(link, peer, frame);
  // What needs no answer is written down no later than what does.
  if (const std::string* const job = coordinator_.machine().job_of(link)) logs_.flush(*job);
  return reason;
}

// Whoever keeps the log has it before anybody hears what follows from it.
void CoordinatorServer::send_streams(LinkId link, std::string_view frame) {
  if (const std::string* const job = coordinator_.machine().job_of(link)) logs_.flush(*job);
  if (!may_speak() || held_.hold(link, frame)) return;
  const auto found = channels_.find(link);
  if (found != channels_.end()) found->second->send_bytes(frame);
}

}  // namespace cpprun
