// SPDX-License-Identifier: BSD-3-Clause
// How a process comes to the streams of another one, from what that one has written down
// (store_log.h). No link leads here meanwhile: what is said is kept until one does.

#include "rendezvous/store/store_streams.h"

namespace cpprun {

void StoreStreams::show(const std::function<void(const Shown&)>& viewer) const {
  for (const auto& [id, stream] : streams_) {
    viewer({.stream = id,
            .taken_here = stream.taken_here,
            .taken_there = stream.taken_there,
            .is_closed = stream.is_closed_here,
            .outgoing = stream.outgoing.view()});
  }
}

void StoreStreams::replay_open(StreamId stream) {
  newest_ = std::max(newest_, stream);
  streams_[stream].is_known_there = true;
}

void StoreStreams::replay_take(StreamId stream, std::uint64_t count) {
  if (Stream* const found = find(stream)) found->taken_here += count;
}

void StoreStreams::replay_taken(StreamId stream, std::uint64_t place) {
  Stream* const found = find(stream);
  if (found == nullptr) return;
  // The other process may have said what is still to be said here.
  (void)hear_taken(stream, *found, std::min(place, found->said_to()));
}

void StoreStreams::replay_over(StreamId stream) {
  if (find(stream) != nullptr) erase(stream);
}

void StoreStreams::restore(const Shown& shown) {
  replay_open(shown.stream);
  Stream& stream = streams_[shown.stream];
  stream.taken_here = stream.told_taken = shown.taken_here;
  stream.taken_there = stream.sent = stream.journal_taken = shown.taken_there;
  stream.outgoing.append(shown.outgoing);
  bytes_held_ += shown.outgoing.size();
  stream.is_closed_here = shown.is_closed;
  queue(shown.stream, stream);
}

}  // namespace cpprun
