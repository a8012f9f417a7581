// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The streams that lead through a link, from a node's workers to their job's store: one end of them
// (StoreStreams), and the agent's (WorkerStreams).

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/bounds.h"
#include "proto/link/binary_frame.h"
#include "proto/result.h"
#include "rendezvous/byte_buffer.h"

namespace cpprun {

using link::StreamId;

// One end of the streams that lead through a link: the connections of a node's workers to their
// job's store, as bytes. The agent has one end, the coordinator the other; both are this machine,
// which knows no socket and no clock.
//
//   worker ─► say() ─► next_frame() ─► link ─► hear() ─► heard() ─► the store's session
//
// A stream is as reliable as a connection that never breaks: a link may break at any byte and be
// begun anew, and everything that was said arrives once and in order. Each side keeps what it has
// said until the other has taken it, at most a window of it: whoever does not read holds nobody
// else up. The scheme is that of SSH's channels (RFC 4254 §5), with places instead of counts, so
// that repeating what may be lost does no harm.
class StoreStreams {
 public:
  explicit StoreStreams(RoundNumber round, std::size_t window = bounds::store_stream_window)
      : round_(round), window_(window) {}

  RoundNumber round() const { return round_; }
  std::size_t size() const { return streams_.size(); }
  // Bytes that wait here in either direction.
  std::size_t bytes_held() const { return bytes_held_; }

  // --- this end ---
  // A worker has connected; said by agents alone.
  StreamId open();
  // How many bytes say() takes now.
  std::size_t room(StreamId stream) const;
  void say(StreamId stream, std::string_view bytes);
  // What the other side has said, as far as it has come and was not taken.
  std::string_view heard(StreamId stream) const;
  void take(StreamId stream, std::size_t count);
  // Bytes of that one that wait here in either direction.
  std::size_t bytes_held(StreamId stream) const;
  // The other side has closed it, and takes nothing more.
  bool has_left(StreamId stream) const;
  // Everything it said is still delivered; nothing more of it is heard.
  void close(StreamId stream);

  // At once: of what it has said, nothing that was not taken is delivered.
  void drop(StreamId stream);

  // What has happened to a stream since it was named last, or at all.
  struct Change {
    StreamId stream;
    bool is_new = false;     // the other side has opened it
    bool has_bytes = false;  // heard() is not empty
    bool has_room = false;   // room() was 0 and is not any more
    bool is_over = false;    // the other side has closed it, and everything it said was taken
  };
  std::optional<Change> next_change();

  // --- the link ---
  // A new link leads to the other side: what may be lost is said again.
  void begin_link();
  // A frame's records, of this round. An error: the other side does not keep to the rules.
  Result<void> hear(link::StreamFrameReader& records);
  bool has_frame() const { return !to_say_.empty() || !unknown_.empty() || must_greet_; }
  // The next frame for the link; empty: there is nothing to be said.
  std::string next_frame();

  // --- another end that is to be like this one ---
  // Who is told what the other side has taken, now and then, and of which streams nobody will speak
  // any more. None of it fails.
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
    std::uint64_t taken_there = 0;  // and `outgoing` is said from there on
    bool is_closed = false;         // here
    std::string_view outgoing;
  };
  void show(const std::function<void(const Shown&)>& viewer) const;
  StreamId newest() const { return newest_; }

  // The same there, in the same order: what was opened by the other side, read of it, and taken.
  // Until end_replay() there is room for whatever the other process has said.
  void begin_replay() { is_replay_ = true; }
  void end_replay() { is_replay_ = false; }
  void replay_open(StreamId stream);
  void replay_take(StreamId stream, std::uint64_t count);
  void replay_taken(StreamId stream, std::uint64_t place);
  void replay_over(StreamId stream);
  void restore(const Shown& shown);
  void replay_newest(StreamId newest) { newest_ = std::max(newest_, newest); }

  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

 private:
  struct Stream {
    ByteBuffer outgoing;                      // said here, from taken_there on
    std::uint64_t taken_there = 0;            // place of the first of them
    std::uint64_t sent = 0;                   // on this link
    ByteBuffer incoming;                      // said there, from taken_here on
    std::uint64_t taken_here = 0;             // place of the first of them
    std::uint64_t told_taken = 0;             // on this link
    std::uint64_t journal_taken = 0;          // what the journal knows of taken_there
    std::optional<std::uint64_t> ends_there;  // the other side says nothing from there on
    bool is_known_there = false;              // the other side has spoken of it
    bool has_said_open = false;               // on this link
    bool has_spoken = true;  // on this link, so that the other side says if it is unknown
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
  // How far the other side takes it now; beyond that there may be what a replay has said.
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
  std::deque<StreamId> to_say_;   // who has something for the next frames
  std::deque<StreamId> changes_;  // whose owner has something to look at
  std::deque<StreamId> unknown_;  // of which the other side has spoken
  StreamId newest_{};             // the greatest number that was ever opened
  std::size_t bytes_held_ = 0;
  bool is_replay_ = false;
  bool must_greet_ = false;  // with a frame on a new link, be it an empty one
};

// A worker's connection, for its streams. It may leave while it is called.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;
  // There is room for what it says.
  virtual void read_on() = 0;
  // The store has said something to it.
  virtual void write_on() = 0;
  // The store says nothing more: what it has said is still written.
  virtual void end() = 0;
  // Its round is over: it is closed, and asks for nothing more here.
  virtual void drop() = 0;
};

// The agent's end of the streams that lead through its link: which worker's connection is to be
// read, written and closed, and when what they said leaves. It knows no socket and no loop; their
// owner is StoreForwarder, and in simulated worlds somebody else.
class WorkerStreams {
 public:
  struct Callbacks {
    // The link is up and takes bytes.
    std::function<bool()> has_room;
    std::function<void(std::string_view frame)> send;
    // turn() is to be called, once, when everything that has come was looked at.
    std::function<void()> turn_soon;
  };
  explicit WorkerStreams(Callbacks callbacks, std::size_t window = bounds::store_stream_window)
      : callbacks_(std::move(callbacks)), window_(window) {}

  // --- workers ---
  // Why nobody is let in; empty: whoever may.
  std::string objection() const;
  StreamId open(std::shared_ptr<WorkerConnection> worker);
  std::size_t room(StreamId worker) const { return streams_->room(worker); }
  void say(StreamId worker, std::string_view bytes);
  std::string_view heard(StreamId worker) const { return streams_->heard(worker); }
  void take(StreamId worker, std::size_t count) { streams_->take(worker, count); }
  // It has taken bytes, or was read, outside of any call from here.
  void send_soon();
  // It is gone.
  void leave(StreamId worker);

  // --- the link ---
  // A round begins: every connection of the one before is dropped.
  void begin_round(RoundNumber round);
  // The agent comes back as a newcomer, who has none: a coordinator that begins anew may give its
  // first round the number of the one that is over here.
  void end_round();
  // The link is another one, on which the agent has its seat.
  void begin_link();
  // A frame of the coordinator's. A returned reason ends the link.
  std::string hear(std::string_view frame);
  // The link takes bytes again.
  void go_on() { send(); }
  void turn();
  void drop_all();

  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

 private:
  void look_at_changes();
  void send();

  Callbacks callbacks_;
  const std::size_t window_;
  std::optional<StoreStreams> streams_;  // of the round that runs
  std::unordered_map<StreamId, std::shared_ptr<WorkerConnection>> workers_;
  bool awaits_turn_ = false;
  StreamId spoke_last_{};       // of the workers
  bool several_speak_ = false;  // at the same time, as far as the last turn shows
};

}  // namespace cpprun
