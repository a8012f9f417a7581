// SPDX-License-Identifier: BSD-3-Clause
// The ways to the jobs' stores: a port of its own for each of a daemon's jobs, or the links of a
// job's nodes, or a port of loopback for the workers of this machine.

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "rendezvous/coordinator/io/coordinator_ports.h"
#include "rendezvous/coordinator/io/coordinator_server.h"

namespace cpprun {

void CoordinatorServer::open_store(const std::string& job, bool is_local) {
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
  forget_streams(job);
  const auto port = job_ports_.extract(job);
  if (!port.empty()) connections_.stop_listening(port.mapped().listener, reason);
}

void CoordinatorServer::reset_store(const coordinator::ResetStore& reset) {
  store_was_asked_ = false;
  forget_streams(reset.job);
  connections_.close_clients(job_ports_.at(reset.job).listener, reset.reason);
  if (local_port_.host) connections_.close_clients(local_port_.listener, reset.reason);
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

// What comes for a round that is over, or from a node that has no seat, is of no use to anybody.
std::string CoordinatorServer::hear_streams(LinkId link, const PeerAddress& peer,
                                            std::string_view frame) {
  link::StreamFrameReader records(frame);
  const auto round = records.round();
  if (!round) return round.error().reason;
  const auto seat = coordinator_.machine().seat_of(link);
  const auto channel = channels_.find(link);
  if (!seat || seat->round != *round || channel == channels_.end()) return {};
  auto& streams = streams_[{seat->job, seat->group_rank}];
  if (streams == nullptr || streams->round() != *round) {
    streams = std::make_shared<NodeStreams>(
        context_, *round,
        NodeStreams::Place{connections_, job_ports_.at(seat->job).listener, peer});
  }
  streams_of_link_[link] = streams;
  return streams->hear(channel->second, records);
}

void CoordinatorServer::streams_may_go_on(LinkId link) {
  const auto found = streams_of_link_.find(link);
  const auto streams = found == streams_of_link_.end() ? nullptr : found->second.lock();
  if (streams) streams->go_on();
}

// Its clients are closed by whoever calls this.
void CoordinatorServer::forget_streams(const std::string& job) {
  std::erase_if(streams_, [&](const auto& each) { return each.first.first == job; });
}

}  // namespace cpprun
