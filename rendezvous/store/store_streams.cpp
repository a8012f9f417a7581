// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

using link::StreamRecord;

// Bound for one stream in one frame, so that none takes a whole frame while others wait.
constexpr std::size_t share_of_frame = 16 * 1024;
// What was taken and is not in the journal yet is at most this fraction of the window.
constexpr std::size_t shares_of_window = 64;

}  // namespace

StoreStreams::Stream* StoreStreams::find(StreamId stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

const StoreStreams::Stream* StoreStreams::find(StreamId stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

// --- this end ------------------------------------------------------------------------------------

StreamId StoreStreams::open() {
  const StreamId id{++newest_.value};
  queue(id, streams_[id]);
  return id;
}

std::size_t StoreStreams::room(StreamId stream) const {
  const Stream* const found = find(stream);
  if (found == nullptr || found->is_closed_here || found->ends_there) return 0;
  if (is_replay_) return std::numeric_limits<std::size_t>::max();
  return window_ - std::min(window_, found->outgoing.size());
}

std::size_t StoreStreams::bytes_held(StreamId stream) const {
  const Stream* const found = find(stream);
  return found == nullptr ? 0 : found->incoming.size() + found->outgoing.size();
}

bool StoreStreams::has_left(StreamId stream) const {
  const Stream* const found = find(stream);
  return found == nullptr || found->ends_there.has_value();
}

void StoreStreams::say(StreamId stream, std::string_view bytes) {
  Stream* const found = find(stream);
  if (found == nullptr || found->is_closed_here || bytes.empty()) return;
  found->outgoing.append(bytes);
  bytes_held_ += bytes.size();
  queue(stream, *found);
}

std::string_view StoreStreams::heard(StreamId stream) const {
  const Stream* const found = find(stream);
  return found == nullptr ? std::string_view() : found->incoming.view();
}

void StoreStreams::take(StreamId stream, std::size_t count) {
  Stream* const found = find(stream);
  if (found == nullptr) return;
  count = std::min(count, found->incoming.size());
  if (count == 0) return;
  found->incoming.drop_front(count);
  found->taken_here += count;
  bytes_held_ -= count;
  if (says_taken(*found)) queue(stream, *found);
  look_for_end(stream, *found);
}

void StoreStreams::close(StreamId stream) {
  Stream* const found = find(stream);
  if (found == nullptr || std::exchange(found->is_closed_here, true)) return;
  bytes_held_ -= found->incoming.size();
  found->taken_here += found->incoming.size();
  found->incoming.clear();
  // What was said is of no use to a side that has closed the stream.
  if (found->ends_there) {
    bytes_held_ -= found->outgoing.size();
    found->outgoing.clear();
    found->sent = found->taken_there;
  }
  queue(stream, *found);
}

void StoreStreams::drop(StreamId stream) {
  if (find(stream) == nullptr) return;
  erase(stream);
  unknown_.push_back(stream);
}

// --- changes ------------------------------------------------------------------------------------

StoreStreams::Change& StoreStreams::note(StreamId id, Stream& stream) {
  if (!std::exchange(stream.awaits_look, true)) changes_.push_back(id);
  return stream.change;
}

std::optional<StoreStreams::Change> StoreStreams::next_change() {
  while (!changes_.empty()) {
    const StreamId id = changes_.front();
    changes_.pop_front();
    Stream* const stream = find(id);
    if (stream == nullptr) continue;
    stream->awaits_look = false;
    Change change = std::exchange(stream->change, {});
    if (stream->is_closed_here) continue;
    change.stream = id;
    return change;
  }
  return std::nullopt;
}

void StoreStreams::look_for_end(StreamId id, Stream& stream) {
  if (stream.ends_there && stream.taken_here == *stream.ends_there && !stream.is_closed_here) {
    note(id, stream).is_over = true;
  }
}

// --- input --------------------------------------------------------------------------------------

Result<void> StoreStreams::hear(link::StreamFrameReader& records) {
  while (true) {
    const auto record = records.next();
    if (!record) return tl::unexpected<Error>(record.error());
    if (!*record) return {};
    if (const auto heard = hear(**record); !heard) return heard;
  }
}

Result<void> StoreStreams::hear(const StreamRecord& record) {
  const StreamId id = record.stream;
  Stream* stream = find(id);
  if (record.kind == StreamRecord::Kind::open) {
    // Repeated on a new link, perhaps by a side that does not know yet that the stream is over.
    if (stream == nullptr && id.value > newest_.value) {
      if (streams_.size() >= bounds::store_streams_max) {
        return failure(fmt::format("workers opened more than {} connections to one store",
                                   bounds::store_streams_max));
      }
      newest_ = id;
      stream = &streams_[id];
      stream->is_known_there = true;
      note(id, *stream).is_new = true;
    } else if (stream == nullptr) {
      return answer_unknown(id);
    }
    return {};
  }
  if (stream == nullptr) {
    if (record.kind == StreamRecord::Kind::unknown) return {};
    if (id.value > newest_.value) {
      return failure(fmt::format("a link frame names stream {}, which was never opened", id.value));
    }
    return answer_unknown(id);
  }
  stream->is_known_there = true;
  switch (record.kind) {
    case StreamRecord::Kind::bytes:
      return hear_bytes(id, *stream, record);
    case StreamRecord::Kind::taken:
      return hear_taken(id, *stream, record.place);
    case StreamRecord::Kind::closed:
      if (record.place < stream->heard_to() && !stream->is_closed_here) {
        return failure(
            fmt::format("a link frame closes stream {} at byte {}, but {} bytes were "
                        "received",
                        id.value, record.place, stream->heard_to()));
      }
      hear_closed(id, *stream, record.place);
      return {};
    case StreamRecord::Kind::unknown:
      hear_closed(id, *stream, stream->heard_to());
      return {};
    case StreamRecord::Kind::open:
      break;
  }
  return {};
}

// Answers consecutive records about one stream only once. A side that keeps asking and does not
// read is cut off.
Result<void> StoreStreams::answer_unknown(StreamId id) {
  if (!unknown_.empty() && unknown_.back() == id) return {};
  if (unknown_.size() >= bounds::store_streams_max) {
    return failure("received too many records about closed streams");
  }
  unknown_.push_back(id);
  return {};
}

Result<void> StoreStreams::hear_bytes(StreamId id, Stream& stream, const StreamRecord& record) {
  // This side has closed the stream and has said so: further bytes are ignored.
  if (stream.is_closed_here) return {};
  const std::uint64_t here = stream.heard_to();
  if (record.place > here) {
    return failure(fmt::format("a link frame skips bytes of stream {}", id.value));
  }
  const std::uint64_t known = here - record.place;
  if (known >= record.bytes.size()) return {};
  const std::string_view fresh = record.bytes.substr(known);
  if (stream.incoming.size() + fresh.size() > window_) {
    return failure(fmt::format("received more than {} bytes on stream {}, which were not requested",
                               window_, id.value));
  }
  if (stream.ends_there && here + fresh.size() > *stream.ends_there) {
    return failure(fmt::format("received more data on stream {} after its end", id.value));
  }
  stream.incoming.append(fresh);
  bytes_held_ += fresh.size();
  note(id, stream).has_bytes = true;
  return {};
}

Result<void> StoreStreams::hear_taken(StreamId id, Stream& stream, std::uint64_t place) {
  if (place > stream.said_to()) {
    return failure(
        fmt::format("a link frame acknowledges more data than was sent on stream {}", id.value));
  }
  if (place <= stream.taken_there) return {};  // repeated
  const bool had_room = stream.outgoing.size() < window_;
  const bool had_more = stream.said_to() > sent_max(stream);
  const std::uint64_t count = place - stream.taken_there;
  stream.outgoing.drop_front(count);
  bytes_held_ -= count;
  stream.taken_there = place;
  stream.sent = std::max(stream.sent, place);
  if (had_more) queue(id, stream);
  const bool has_room = stream.outgoing.size() < window_;
  if (!had_room && has_room && !stream.is_closed_here) note(id, stream).has_room = true;
  // A reader that knows less repeats a little, and nothing is lost by that.
  if (journal_ != nullptr && place - stream.journal_taken >= window_ / shares_of_window) {
    stream.journal_taken = place;
    journal_->taken(id, place);
  }
  return {};
}

// The other side takes nothing further either: what was still to be sent is dropped.
void StoreStreams::hear_closed(StreamId id, Stream& stream, std::uint64_t place) {
  if (stream.ends_there) return;
  stream.ends_there = place;
  bytes_held_ -= stream.outgoing.size();
  stream.taken_there = stream.said_to();
  stream.sent = stream.taken_there;
  stream.outgoing.clear();
  // If this side still has something to say, it need not wait for room.
  if (!stream.is_closed_here) note(id, stream).has_room = true;
  look_for_end(id, stream);
  forget_if_over(id, stream);
}

// Forgets a stream when both sides know that it is over and this side has said so.
void StoreStreams::forget_if_over(StreamId id, const Stream& stream) {
  if (!stream.is_closed_here || !stream.has_said_closed || !stream.ends_there) return;
  erase(id);
}

void StoreStreams::erase(StreamId id) {
  const auto found = streams_.find(id);
  bytes_held_ -= found->second.incoming.size() + found->second.outgoing.size();
  streams_.erase(found);
  if (journal_ != nullptr) journal_->over(id);
}

// --- output -------------------------------------------------------------------------------------

void StoreStreams::begin_link() {
  must_greet_ = true;
  unknown_.clear();  // each side refers to every stream it knows, and then learns which are over
  to_say_.clear();
  for (auto& [id, stream] : streams_) {
    stream.sent = stream.taken_there;
    stream.told_taken = 0;
    stream.has_spoken = false;
    stream.has_said_open = false;
    stream.has_said_closed = false;
    stream.awaits_frame = has_to_say(stream);
    if (stream.awaits_frame) to_say_.push_back(id);
  }
  // In order of their numbers: the receiver takes unknown streams with lower numbers to be over.
  std::ranges::sort(to_say_);
}

bool StoreStreams::says_taken(const Stream& stream) const {
  return !stream.is_closed_here && stream.taken_here - stream.told_taken >= window_ / 4;
}

bool StoreStreams::says_open(const Stream& stream) {
  return !stream.is_known_there && !stream.has_said_open;
}

bool StoreStreams::has_to_say(const Stream& stream) const {
  const bool must_speak = !stream.has_spoken && stream.is_known_there;
  return must_speak || says_open(stream) || stream.sent < sent_max(stream) || says_taken(stream) ||
         (stream.is_closed_here && !stream.has_said_closed && stream.sent == stream.said_to());
}

void StoreStreams::queue(StreamId id, Stream& stream) {
  if (!has_to_say(stream) || std::exchange(stream.awaits_frame, true)) return;
  to_say_.push_back(id);
}

std::string StoreStreams::next_frame() {
  if (!has_frame()) return {};
  link::StreamFrameWriter frame(round_);
  must_greet_ = false;
  while (!unknown_.empty() && frame.has_room_for_record()) {
    frame.add({.kind = StreamRecord::Kind::unknown, .stream = unknown_.front()});
    unknown_.pop_front();
  }
  // At most three records of a stream precede its bytes.
  while (!to_say_.empty() && frame.room() > 3 * link::stream_record_head) {
    const StreamId id = to_say_.front();
    to_say_.pop_front();
    Stream* const stream = find(id);
    if (stream == nullptr) continue;
    stream->awaits_frame = false;
    write(id, *stream, frame);
  }
  return frame.finish();
}

void StoreStreams::write(StreamId id, Stream& stream, link::StreamFrameWriter& frame) {
  using Kind = StreamRecord::Kind;
  if (says_open(stream)) {
    frame.add({.kind = Kind::open, .stream = id});
    stream.has_said_open = true;
  }
  // It adds little to what is sent anyway, and frees memory on the other side.
  const bool must_speak = !std::exchange(stream.has_spoken, true) && stream.is_known_there;
  if (must_speak || (!stream.is_closed_here && stream.taken_here > stream.told_taken)) {
    frame.add({.kind = Kind::taken, .stream = id, .place = stream.taken_here});
    stream.told_taken = stream.taken_here;
  }
  const std::uint64_t left = sent_max(stream) - stream.sent;
  if (left > 0) {
    const std::size_t count = std::min<std::uint64_t>({left, frame.room(), share_of_frame});
    const auto bytes = stream.outgoing.view().substr(stream.sent - stream.taken_there, count);
    frame.add({.kind = Kind::bytes, .stream = id, .place = stream.sent, .bytes = bytes});
    stream.sent += count;
  }
  if (stream.is_closed_here && stream.sent == stream.said_to() && frame.has_room_for_record()) {
    frame.add({.kind = Kind::closed, .stream = id, .place = stream.said_to()});
    stream.has_said_closed = true;
    return forget_if_over(id, stream);
  }
  queue(id, stream);
}

// --- for tests -----------------------------------------------------------------------------------

std::optional<std::string> StoreStreams::check() const {
  std::size_t held = 0;
  for (const auto& [id, stream] : streams_) {
    const auto of = [number = id.value](const char* what) {
      return fmt::format("stream {} {}", number, what);
    };
    held += stream.incoming.size() + stream.outgoing.size();
    if (stream.sent > stream.taken_there + window_) return of("has sent too much");
    if (stream.incoming.size() > window_) return of("has received too much");
    if (stream.sent < stream.taken_there || stream.sent > stream.said_to()) {
      return of("has sent bytes that it does not hold");
    }
    if (has_to_say(stream) && !stream.awaits_frame) return of("has bytes that are never sent");
    if (stream.is_closed_here && stream.has_said_closed && stream.ends_there) {
      return of("is over and was not removed");
    }
  }
  if (held != bytes_held_) return "wrong count of held bytes";
  return std::nullopt;
}

// How a process arrives at the streams of another one, from the log of that one (store_log.h).
// There is no link meanwhile: what is said is kept until there is one.

void StoreStreams::show(const std::function<void(const Shown&)>& viewer) const {
  for (const auto& [id, stream] : streams_) {
    viewer({.stream = id,
            .taken_here = stream.taken_here,
            .taken_there = stream.taken_there,
            .is_closed = stream.is_closed_here,
            .is_known_there = stream.is_known_there,
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
  // The other process may have sent what is still to be said here.
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
  stream.is_known_there = shown.is_known_there;
  queue(shown.stream, stream);
}

// --- workers -------------------------------------------------------------------------------------

std::string WorkerStreams::objection() const {
  if (!streams_) return "no round has begun";
  // The coordinator accepts twice as many, because some may still be closing.
  const bool is_full = streams_->size() >= bounds::store_streams_max / 2;
  return is_full ? "the workers of this node have too many connections to their store" : "";
}

StreamId WorkerStreams::open(std::shared_ptr<WorkerConnection> worker) {
  const StreamId stream = streams_->open();
  workers_.emplace(stream, std::move(worker));
  return stream;
}

// If one worker speaks alone, its bytes are sent at once; those of several are sent together.
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

void WorkerStreams::show(
    const std::function<void(const Shown&, WorkerConnection* worker)>& viewer) const {
  if (!streams_) return;
  std::vector<Shown> all;
  streams_->show([&all](const Shown& shown) { all.push_back(shown); });
  std::ranges::sort(all, {}, &Shown::stream);
  for (const Shown& each : all) {
    const auto worker = workers_.find(each.stream);
    viewer(each, worker == workers_.end() ? nullptr : worker->second.get());
  }
}

void WorkerStreams::adopt(const Shown& shown, std::shared_ptr<WorkerConnection> worker) {
  streams_->restore(shown);
  if (worker) workers_.emplace(shown.stream, std::move(worker));
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

// Sends once for all that workers have said at the same time.
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
  // Leaves time for other work of the agent.
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
