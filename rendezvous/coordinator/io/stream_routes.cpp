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
  auto& streams = streams_[{seat->job, seat->group_rank}];
  if (streams == nullptr || streams->round() != *round) {
    streams = std::make_shared<NodeStreams>(
        callbacks_.loop, *round,
        NodeStreams::Place{connections_, callbacks_.listener_of(seat->job), peer}, window_);
  }
  by_link_[link] = streams;
  // Kept here: what comes of it may end the round.
  const std::shared_ptr<NodeStreams> kept = streams;
  return kept->hear(link, records);
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
