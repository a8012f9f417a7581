// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/stream_routes.h"

namespace cpprun {

// What comes for a round that is over, or from a node that has no seat, is of no use to anybody.
std::string StreamRoutes::hear(LinkId link, const PeerAddress& peer, std::string_view frame) {
  link::StreamFrameReader records(frame);
  const auto round = records.round();
  if (!round) return round.error().reason;
  const auto seat = callbacks_.seat_of(link);
  if (!seat || seat->round != *round) return {};
  // Kept here: what comes of it may end the round.
  const std::shared_ptr<NodeStreams> kept = of(*seat, peer);
  by_link_[link] = kept;
  return kept->hear(link, records);
}

std::shared_ptr<NodeStreams> StreamRoutes::of(const Coordinator::Seat& seat,
                                              const PeerAddress& peer) {
  auto& streams = streams_[{seat.job, seat.group_rank}];
  if (streams == nullptr || streams->round() != seat.round) {
    streams = std::make_shared<NodeStreams>(
        callbacks_.loop, seat.round,
        NodeStreams::Place{.connections = connections_,
                           .listener = callbacks_.listener_of(seat.job),
                           .peer = peer,
                           .node = seat.group_rank,
                           .log = callbacks_.log_of(seat.job)},
        window_);
  }
  return streams;
}

void StreamRoutes::keep_log(const std::string& job, StoreLog* log) {
  for (const auto& [seat, streams] : streams_) {
    if (seat.first == job) streams->keep_log(log);
  }
}

void StreamRoutes::show(const std::string& job, StoreLog& log) const {
  for (const auto& [seat, streams] : streams_) {
    if (seat.first == job) streams->show(log);
  }
}

void StreamRoutes::go_on(LinkId link) {
  const auto found = by_link_.find(link);
  const auto streams = found == by_link_.end() ? nullptr : found->second.lock();
  if (streams) streams->go_on();
}

void StreamRoutes::forget(const std::string& job) {
  std::erase_if(streams_, [&](const auto& each) { return each.first.first == job; });
}

std::size_t StreamRoutes::clients() const {
  std::size_t sum = 0;
  for (const auto& [seat, streams] : streams_) sum += streams->clients();
  return sum;
}

}  // namespace cpprun
