// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Streams through a link, from a node's workers to their job's store: one end of them
// (StoreStreams), and the agent's end with its workers (WorkerStreams).

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/link/binary_frame.h"
#include "proto/result.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

using link::StreamId;

// One end of the streams through a link, which carry the connections of a node's workers to their
// job's store as bytes. The agent has one end, the coordinator the other. Both are this state
// machine, which has no sockets and no clock.
//
//   worker ─► say() ─► next_frame() ─► link ─► hear() ─► heard() ─► the store's session
//
// A stream is as reliable as a connection that never breaks. The link may break at any byte and be
// replaced: everything that was said arrives once and in order. Each side keeps what it has said
// until the other has taken it, at most one window of it. So a side that does not read holds up no
// other stream. The scheme is that of SSH's channels (RFC 4254 §5), with places instead of counts,
// so that repeating what may be lost does no harm.
class StoreStreams {
 public:
  explicit StoreStreams(RoundNumber round, std::size_t window = bounds::store_stream_window)
      : round_(round), window_(window) {}

  RoundNumber round() const { return round_; }
  std::size_t size() const { return streams_.size(); }
  // Bytes waiting here in either direction.
  std::size_t bytes_held() const { return bytes_held_; }

  // --- this end ---
  // A worker has connected. Only agents call this.
  StreamId open();
  // How many bytes say() accepts now.
  std::size_t room(StreamId stream) const;
  void say(StreamId stream, std::string_view bytes);
  // What the other side has said, as far as it has arrived and was not taken.
  std::string_view heard(StreamId stream) const;
  void take(StreamId stream, std::size_t count);
  // Bytes of that stream waiting here in either direction.
  std::size_t bytes_held(StreamId stream) const;
  // The other side has closed it, and accepts nothing further.
  bool has_left(StreamId stream) const;
  // Closes this side. Everything it has said is still delivered; what arrives is ignored.
  void close(StreamId stream);

  // Ends it at once. What the other side has said and was not taken is never delivered.
  void drop(StreamId stream);

  // What has happened to a stream since it was last returned.
  struct Change {
    StreamId stream;
    bool is_new = false;     // the other side has opened it
    bool has_bytes = false;  // heard() is not empty
    bool has_room = false;   // room() was 0 and is not now
    bool is_over = false;    // the other side has closed it, and all it said was taken
  };
  std::optional<Change> next_change();

  // --- the link ---
  // There is a new link to the other side: what may be lost is sent again.
  void begin_link();
  // The records of a frame, of this round. An error: the other side violates the protocol.
  Result<void> hear(link::StreamFrameReader& records);
  bool has_frame() const { return !to_say_.empty() || !unknown_.empty() || must_greet_; }
  // The next frame for the link; empty: there is nothing to send.
  std::string next_frame();

  // --- replication of this end ---
  // Receives what the other side has taken, now and then, and which streams no side will refer to
  // again. No call fails.
  class Journal {
   public:
    virtual ~Journal() = default;
    virtual void taken(StreamId stream, std::uint64_t place) noexcept = 0;
    virtual void over(StreamId stream) noexcept = 0;
  };
  void keep_journal(Journal* journal) { journal_ = journal; }
  struct Shown {
    StreamId stream;
    std::uint64_t taken_here = 0;
    std::uint64_t taken_there = 0;  // and `outgoing` starts there
    bool is_closed = false;         // by this side
    bool is_known_there = true;     // the other side has referred to it
    std::string_view outgoing;
  };
  void show(const std::function<void(const Shown&)>& viewer) const;
  StreamId newest() const { return newest_; }

  // The same on the copy, in the same order: what the other side opened, what was read from it, and
  // what was taken. Until end_replay() there is room for whatever the other process has said.
  void begin_replay() { is_replay_ = true; }
  void end_replay() { is_replay_ = false; }
  void replay_open(StreamId stream);
  void replay_take(StreamId stream, std::uint64_t count);
  void replay_taken(StreamId stream, std::uint64_t place);
  void replay_over(StreamId stream);
  void restore(const Shown& shown);
  void replay_newest(StreamId newest) { newest_ = std::max(newest_, newest); }

  // The violated invariant, if any.
  std::optional<std::string> check() const;

 private:
  struct Stream {
    ByteBuffer outgoing;                      // said here, from taken_there on
    std::uint64_t taken_there = 0;            // place of its first byte
    std::uint64_t sent = 0;                   // up to this place, on this link
    ByteBuffer incoming;                      // said there, from taken_here on
    std::uint64_t taken_here = 0;             // place of its first byte
    std::uint64_t told_taken = 0;             // taken_here as last sent on this link
    std::uint64_t journal_taken = 0;          // taken_there as the journal knows it
    std::optional<std::uint64_t> ends_there;  // the other side says nothing from this place on
    bool is_known_there = false;              // the other side has referred to it
    bool has_said_open = false;               // on this link
    bool has_spoken = true;  // on this link, so that the other side answers if it is unknown
    bool is_closed_here = false;
    bool has_said_closed = false;  // on this link
    bool awaits_frame = false;     // in to_say_
    bool awaits_look = false;      // in changes_
    Change change = {};
    std::uint64_t said_to() const { return taken_there + outgoing.size(); }
    std::uint64_t heard_to() const { return taken_here + incoming.size(); }
  };

  Stream* find(StreamId stream);
  const Stream* find(StreamId stream) const;
  Result<void> hear(const link::StreamRecord& record);
  Result<void> hear_bytes(StreamId id, Stream& stream, const link::StreamRecord& record);
  Result<void> hear_taken(StreamId id, Stream& stream, std::uint64_t place);
  void hear_closed(StreamId id, Stream& stream, std::uint64_t place);
  void look_for_end(StreamId id, Stream& stream);
  Change& note(StreamId id, Stream& stream);
  void queue(StreamId id, Stream& stream);
  bool has_to_say(const Stream& stream) const;
  // How far the other side accepts bytes now. A replay may have said more than that.
  std::uint64_t sent_max(const Stream& stream) const {
    return std::min<std::uint64_t>(stream.said_to(), stream.taken_there + window_);
  }
  bool says_taken(const Stream& stream) const;
  static bool says_open(const Stream& stream);
  void write(StreamId id, Stream& stream, link::StreamFrameWriter& frame);
  Result<void> answer_unknown(StreamId id);
  void forget_if_over(StreamId id, const Stream& stream);

  void erase(StreamId id);

  const RoundNumber round_;
  const std::size_t window_;
  Journal* journal_ = nullptr;
  std::unordered_map<StreamId, Stream> streams_;
  std::deque<StreamId> to_say_;   // streams with something for the next frames
  std::deque<StreamId> changes_;  // streams with a change to be returned
  std::deque<StreamId> unknown_;  // unknown streams that the other side has referred to
  StreamId newest_{};             // the greatest number ever opened
  std::size_t bytes_held_ = 0;
  bool is_replay_ = false;
  bool must_greet_ = false;  // with a frame on a new link, even an empty one
};

// A worker's connection, as its streams see it. It may leave during a call.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;
  // There is room for what it sends.
  virtual void read_on() = 0;
  // The store has sent something to it.
  virtual void write_on() = 0;
  // The store sends nothing further. What it has sent is still written.
  virtual void end() = 0;
  // Its round is over: it is closed, and must not call its streams again.
  virtual void drop() = 0;
};

// The agent's end of the streams through its link: which workers' connections to read, write and
// close, and when their bytes are sent. It has no sockets and no loop: StoreForwarder has
// those, or the simulator.
class WorkerStreams {
 public:
  struct Callbacks {
    // The link is up and has room.
    std::function<bool()> has_room;
    std::function<void(std::string_view frame)> send;
    // Requests one call of turn(), after all pending input was handled.
    std::function<void()> turn_soon;
  };
  explicit WorkerStreams(Callbacks callbacks, std::size_t window = bounds::store_stream_window)
      : callbacks_(std::move(callbacks)), window_(window) {}

  // --- workers ---
  // Why no worker is admitted; empty: workers are.
  std::string objection() const;
  StreamId open(std::shared_ptr<WorkerConnection> worker);
  std::size_t room(StreamId worker) const { return streams_->room(worker); }
  void say(StreamId worker, std::string_view bytes);
  std::string_view heard(StreamId worker) const { return streams_->heard(worker); }
  void take(StreamId worker, std::size_t count) { streams_->take(worker, count); }
  // To be called after a worker has taken bytes or was read, other than in a call from here.
  void send_soon();
  // The worker is gone.
  void leave(StreamId worker);

  // --- the link ---
  // A round begins: drops every connection of the previous one.
  void begin_round(RoundNumber round);
  // For another program in this process: its streams, in order of their numbers, and whether a
  // worker is there; and how that program continues after begin_round().
  using Shown = StoreStreams::Shown;
  void show(const std::function<void(const Shown&, WorkerConnection* worker)>& viewer) const;
  std::optional<RoundNumber> round() const {
    return streams_ ? std::optional(streams_->round()) : std::nullopt;
  }
  StreamId newest() const { return streams_ ? streams_->newest() : StreamId{}; }
  void adopt(const Shown& shown, std::shared_ptr<WorkerConnection> worker);
  void adopt_newest(StreamId newest) { streams_->replay_newest(newest); }
  // The agent returns as a newcomer, without a round. A coordinator that starts over may reuse the
  // number of the round that is over here for its first round.
  void end_round();
  // There is a new link, on which the agent has its seat.
  void begin_link();
  // A frame from the coordinator. A returned reason ends the link.
  std::string hear(std::string_view frame);
  // The link has room again.
  void go_on() { send(); }
  void turn();
  void drop_all();

  // The violated invariant, if any.
  std::optional<std::string> check() const;

 private:
  void look_at_changes();
  void send();

  Callbacks callbacks_;
  const std::size_t window_;
  std::optional<StoreStreams> streams_;  // of the running round
  std::unordered_map<StreamId, std::shared_ptr<WorkerConnection>> workers_;
  bool awaits_turn_ = false;
  StreamId spoke_last_{};       // the worker that sent something last
  bool several_speak_ = false;  // several workers sent something since the last turn
};

}  // namespace cpprun
