// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/worker_streams.h"

#include <utility>

namespace cpprun {

// --- workers -------------------------------------------------------------------------------------

std::string WorkerStreams::objection() const {
  if (!streams_) return "no round has begun";
  // The coordinator takes twice as many, and some may be on their way out.
  const bool is_full = streams_->size() >= bounds::store_streams_max / 2;
  return is_full ? "this node's workers have too many connections to their store" : "";
}

StreamId WorkerStreams::open(std::shared_ptr<WorkerConnection> worker) {
  const StreamId stream = streams_->open();
  workers_.emplace(stream, std::move(worker));
  return stream;
}

// Where one speaks alone, what it says leaves at once; where several do, together.
void WorkerStreams::say(StreamId worker, std::string_view bytes) {
  streams_->say(worker, bytes);
  if (std::exchange(spoke_last_, worker) != worker) several_speak_ = true;
  if (several_speak_) return send_soon();
  send();
}

void WorkerStreams::leave(StreamId worker) {
  streams_->close(worker);
  workers_.erase(worker);
  send_soon();
}

void WorkerStreams::drop_all() {
  for (const auto& [stream, worker] : std::exchange(workers_, {})) worker->drop();
}

// --- the link ------------------------------------------------------------------------------------

void WorkerStreams::begin_round(RoundNumber round) {
  drop_all();
  streams_.emplace(round, window_);
}

void WorkerStreams::end_round() {
  drop_all();
  streams_.reset();
}

void WorkerStreams::begin_link() {
  if (!streams_) return;
  streams_->begin_link();
  send();
}

std::string WorkerStreams::hear(std::string_view frame) {
  link::StreamFrameReader records(frame);
  const auto round = records.round();
  if (!round) return round.error().reason;
  if (!streams_ || streams_->round() != *round) return {};  // of a round that is over here
  const auto heard = streams_->hear(records);
  if (!heard) return heard.error().reason;
  look_at_changes();
  send();
  return {};
}

void WorkerStreams::look_at_changes() {
  while (const auto change = streams_->next_change()) {
    const auto found = workers_.find(change->stream);
    if (found == workers_.end()) continue;
    const std::shared_ptr<WorkerConnection> worker = found->second;
    if (change->has_bytes) worker->write_on();
    // It may have left by now.
    if (change->has_room && workers_.contains(change->stream)) worker->read_on();
    if (change->is_over && workers_.contains(change->stream)) worker->end();
  }
}

// Once for all that workers have said at the same time.
void WorkerStreams::send_soon() {
  if (!std::exchange(awaits_turn_, true)) callbacks_.turn_soon();
}

void WorkerStreams::turn() {
  awaits_turn_ = false;
  several_speak_ = false;
  if (!streams_) return;
  look_at_changes();
  send();
}

void WorkerStreams::send() {
  // The agent's own affairs come in between.
  for (int left = bounds::store_frames_per_turn;
       streams_ && streams_->has_frame() && callbacks_.has_room(); --left) {
    if (left == 0) return send_soon();
    callbacks_.send(streams_->next_frame());
  }
}

std::optional<std::string> WorkerStreams::check() const {
  return streams_ ? streams_->check() : std::nullopt;
}

}  // namespace cpprun
