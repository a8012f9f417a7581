// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What StoreSessions keeps of its clients: their inboxes, outboxes and slots, requests that take
// several turns, the connections that have not sent anything yet or are to be closed, and what
// waits for its turn. Also its actions on sockets, and the journal of its decisions.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/clock.h"
#include "proto/rank.h"
#include "proto/sniff.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/memory_accounting.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun::session {

// Why something is written. This decides what happens to a client that does not read it.
enum class Cause : std::uint8_t {
  own_requests,  // replies to its own requests: if too many wait, nothing more is read from it
  others,  // caused by other clients, so it cannot be held back: too much of it ends the client
  socket_has_room  // the rest of what it did not take before
};

// Bytes wait for that client. StoreSessions::pieces() returns where they are.
struct Write {
  ConnectionId to;
  int socket = -1;
  Cause cause = Cause::own_requests;
  std::string last_reason{};  // not empty: it is closed with that reason once they are written
  friend bool operator==(const Write&, const Write&) = default;
};

// From now on the socket is watched for these events.
struct Watch {
  ConnectionId id;
  int socket = -1;
  bool for_bytes = true;
  bool for_room = false;
  friend bool operator==(const Watch&, const Watch&) = default;
};

// The connection speaks the store's protocol and is not admitted yet: call admit() or close().
struct Admit {
  ConnectionId id;
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  friend bool operator==(const Admit&, const Admit&) = default;
};

// The connection speaks the link's protocol, or another protocol of the port. From now on it
// belongs to the owner of the sockets. `first_bytes` were read already.
struct HandOver {
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  Protocol speaks = Protocol::link;
  std::string first_bytes;
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// The connection is forgotten: close its socket. `reason` completes "closed: ".
struct Close {
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  bool was_client = false;   // of the store; false: its protocol was not known yet
  bool is_ordinary = false;  // the client simply left
  std::string reason;
  friend bool operator==(const Close&, const Close&) = default;
};

}  // namespace cpprun::session

namespace cpprun {

// Replies that wait for a client to read them. Short ones are copied one after the other. Values of
// the store are only referenced, so a large value in the outboxes of many clients, or many times in
// one, exists once in memory.
class Outbox {
 public:
  bool empty() const { return copied_.empty() && next_ == shared_.size(); }
  // Bytes still to be sent.
  std::size_t size() const { return copied_.size() + shared_left_; }
  // Bytes of memory that the outbox itself owns.
  std::size_t own_bytes() const { return copied_.capacity() + shared_.capacity() * sizeof(Placed); }

  void append(std::string_view bytes) { copied_.append(bytes); }
  void append(const IoSlices& pieces);

  // The next bytes to send, in place: as many pieces as fit `room`, of at most `bytes_max` bytes in
  // all.
  std::span<const std::string_view> next(std::span<std::string_view> room,
                                         std::size_t bytes_max) const;
  void drop_front(std::size_t count);
  // All of it, copied.
  std::string text() const;

 private:
  struct Placed {
    std::size_t copied_before = 0;  // bytes of copied_ before it, counted from the first one ever
    Slice slice;
  };

  ByteBuffer copied_;
  std::size_t copied_taken_ = 0;  // bytes of it that were sent
  std::vector<Placed> shared_;
  std::size_t next_ = 0;         // index into shared_: those before it were sent
  std::size_t shared_left_ = 0;  // bytes
};

// A LIST_KEYS that is answered in several turns.
struct Listing {
  std::size_t asked = 0;  // bytes of the request
  KeyListing progress;
  ByteBuffer bytes;  // of the reply, without the number of keys at its start

  // Lists some more keys, and adds to `work` what that took. Returns whether those were the last.
  bool go_on(const Store& store, std::size_t& work);
  // The whole reply. To be called once, when all keys are listed.
  SharedReply reply(ConnectionId to, MemoryAccounting& accounting, AccountId account);
};

struct Backlog {
  ByteBuffer inbox;              // the start of a request, and what came after it
  std::size_t inbox_needed = 0;  // bytes needed before it is worth decoding again
  c10d::Progress progress;       // of the request in the inbox
  Outbox outbox;                 // replies that were not taken yet
  std::unique_ptr<Listing> listing;
  std::size_t bytes_charged = 0;  // what the accounting has booked for all that
  // When the peer last took some of the replies, or when they began to wait.
  TimePoint last_taken{};
};

enum class Speaks : std::uint8_t { unknown_yet, store };

// The state of one connection between two visits: a slot of fixed size, and a backlog only while
// bytes wait in either direction. The slots of all connections are in one table.
struct Session {
  ConnectionId id;  // 0: the slot is free
  std::unique_ptr<Backlog> backlog;
  int socket = -1;         // the owner's handle of its socket; not used here
  std::uint32_t port = 0;  // through which it connected
  PeerAddress peer;
  AccountId account;
  c10d::Conversation conversation;
  Speaks speaks = Speaks::unknown_yet;
  bool is_paused = false;          // its requests are not read until it takes replies
  bool is_timed = false;           // a timer will check whether it has taken something meanwhile
  bool is_ambiguous = false;       // a timer will decide what its request means
  bool awaits_writable = false;    // more is sent when the socket has room
  bool awaits_turn = false;        // queued, because it has undecided requests
  bool is_queued_to_send = false;  // queued, because it has something to send
  bool is_doomed = false;          // will be closed when there is time; is not served until then

  // Bytes go into the inbox directly, because it is large.
  bool is_received_in_place() const;
  Backlog& open_backlog();
  // Books what waits in either direction. Returns why that is too much; empty if it is not.
  // Requires a backlog.
  std::string charge_backlog(MemoryAccounting& accounting);
  void drop_backlog(MemoryAccounting& accounting);
  void drop_empty_backlog(MemoryAccounting& accounting);
  // The conversation as a number: the dialect, whether a complete request was decoded, and whether
  // the client was admitted.
  std::uint64_t conversation_number() const;
  void restore_conversation(std::uint64_t number);
  // The violated invariant, if any.
  std::optional<std::string> check() const;
};

// The inbox of a client while its requests are decided: they point into these bytes, and may end
// the connection with everything it owns.
class TakenInbox {
 public:
  // Takes the inbox out of the backlog. If it is large and has a whole request, its memory becomes
  // a chunk, which may become a value in place.
  TakenInbox(Session& session, MemoryAccounting& accounting);

  std::string_view bytes() const {
    return chunk_ ? chunk_->view().substr(memory_.start) : small_.view();
  }
  // Null if the inbox is small.
  const std::shared_ptr<Chunk>& chunk() const { return chunk_; }
  // Puts back what follows the first `consumed` bytes. The object is not used after this.
  void put_back(Session& session, std::size_t consumed);

 private:
  ByteBuffer small_;
  std::shared_ptr<Chunk> chunk_;
  ByteBuffer::Memory memory_;  // owned by chunk_
};

// The cost of carrying a request out, apart from its replies.
std::size_t work_of(const c10d::Complete& complete);

// A request with very many keys takes longer than one turn may. It is carried out in parts. Links
// are served in between, but no client of any store is, so that none sees an intermediate state.
class LongRequest {
 public:
  // So many keys exceed what is received at once. Their bytes are therefore in memory that can be
  // kept until the request is done.
  static bool is_one(const c10d::Request& request, const std::shared_ptr<Chunk>& memory);

  // The keys are in the decoder's memory. It must not decode anything until the request is done.
  LongRequest(ConnectionId from, const c10d::Request& request, Origin origin)
      : request_(request), origin_(std::move(origin)), shared_reply_{from, {}} {}

  ConnectionId from() const { return shared_reply_.to; }
  // Carries out one part.
  void go_on(Store& store, Actions& actions);
  bool is_done() const;
  // Requires is_done(). Appends the reply, if the client gets one now, and is not used after this.
  void end(const Store& store, Actions& actions);

 private:
  c10d::Request request_;
  Origin origin_;
  std::size_t done_ = 0;      // number of its keys that are done
  bool has_all_ = true;       // the answer to CHECK
  SharedReply shared_reply_;  // the answer to MULTI_GET
};

// An id contains the slot's number and a serial, so that lookup takes one step and a stale id finds
// nothing. Slots do not move.
class SessionTable {
 public:
  Session& open(int socket, const PeerAddress& peer, std::uint32_t port);
  // Null if that connection is gone.
  Session* find(ConnectionId id);
  const Session* find(ConnectionId id) const;
  // Frees the slot. The owner has to close its socket.
  void release(Session& session);

  std::size_t size() const { return slots_.size() - free_.size(); }
  // For visits to all of them; free slots have id 0.
  std::deque<Session>& slots() { return slots_; }
  const std::deque<Session>& slots() const { return slots_; }
  std::vector<int> sockets() const;

 private:
  static constexpr int slot_bits = 24;  // sixteen million connections, and 2^40 over a lifetime

  std::deque<Session> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
};

// Connections whose protocol is still unknown, in order of arrival. A silent connection may stay,
// because old clients keep one. It is closed if another connection needs its descriptor, or if its
// address is at its limit and another connection comes from there.
class UnidentifiedConnections {
 public:
  void add(ConnectionId id, SessionTable& table);
  // The connection that has been silent longest, except `newest`; null if there is none.
  Session* longest_silent(SessionTable& table, ConnectionId newest = {});
  // The same among those that count for that address (PeerAddress::source).
  Session* longest_silent_of(SessionTable& table, const PeerAddress& source) const;

 private:
  // Connections that have spoken or left meanwhile are removed only when they are found.
  std::deque<ConnectionId> line_;
};

// Connections that are to be closed when there is time. Invariant: contains each session that is
// doomed, unless there was no memory to add it; then recover() adds it.
class DoomedConnections {
 public:
  struct Doomed {
    ConnectionId id;
    std::shared_ptr<const std::string> reason;
  };

  bool empty() const { return queue_.empty(); }
  const Doomed& front() const { return queue_.front(); }
  void pop_front() { queue_.pop_front(); }
  // Adds the store's clients of that port, and if wanted the connections that have not sent
  // anything yet. Returns their number, including those that are doomed already.
  std::size_t add_all_of(std::uint32_t port, SessionTable& table, const std::string& reason,
                         bool with_unidentified);

  // Needs no memory.
  void add_unlisted(Session& session) { session.is_doomed = has_unlisted_ = true; }
  // Frees the memory that is reserved for closing clients when there is no other.
  void free_reserve() { reserve_.reset(); }
  // Reserves it again, and adds what is not listed, for that reason.
  void recover(const SessionTable& table, const char* reason);

 private:
  std::deque<Doomed> queue_;
  std::unique_ptr<char[]> reserve_;  // null: it is in use
  bool has_unlisted_ = false;
};

// What waits for its turn, and how much work is left in the turn under way.
class TurnQueue {
 public:
  enum class TimerKind { ambiguity, stall, greeting };
  struct Timer {
    TimePoint when;
    TimerKind kind = TimerKind::ambiguity;
    ConnectionId id;
    friend auto operator<=>(const Timer& left, const Timer& right) {
      return left.when <=> right.when;
    }
  };

  TurnQueue(std::size_t work_per_turn, std::size_t wakes_per_slice)
      : work_per_turn_(work_per_turn), wakes_per_slice_(wakes_per_slice) {}

  void begin(TimePoint now);
  TimePoint now() const { return now_; }
  std::ptrdiff_t work_left() const { return work_left_; }
  void spend(std::size_t work) { work_left_ -= static_cast<std::ptrdiff_t>(work); }
  // More than half of the turn's work is left.
  bool has_half() const { return work_left_ > static_cast<std::ptrdiff_t>(work_per_turn_ / 2); }

  // The client has requests that one visit did not decide.
  void decide_later(Session& session);
  bool will_decide(ConnectionId id) const;
  // The client has output that other clients caused.
  void send_later(Session& session);
  void arm(TimerKind kind, ConnectionId id, Duration delay) {
    timers_.push({now_ + delay, kind, id});
  }

  // Each removes the first item and returns it. Nothing if there is none, or if this turn's work
  // for it is used up. Half of the work is left for new input.
  std::optional<ConnectionId> next_to_decide();
  std::optional<ConnectionId> next_to_send();
  std::optional<Timer> next_timer();
  // The same without the bounds of a turn.
  std::optional<ConnectionId> any_to_send();

  bool has_undecided() const { return !to_decide_.empty(); }
  // Whether another turn is wanted at once.
  bool has_more() const;
  std::optional<TimePoint> next_deadline() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.top().when);
  }

 private:
  const std::size_t work_per_turn_;
  const std::size_t wakes_per_slice_;
  TimePoint now_{};
  std::ptrdiff_t work_left_ = 0;  // of this turn
  std::size_t turns_left_ = 0;    // for connections that were queued when this turn began
  std::size_t wakes_left_ = 0;    // of wakes_per_slice_
  std::deque<ConnectionId> to_decide_;
  std::deque<ConnectionId> to_send_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

// Protocols that a port takes besides those of store clients and links.
struct TakenProtocols {
  bool http = false;
  bool secure = false;
  bool includes(Protocol protocol) const {
    return protocol == Protocol::link || (http && protocol == Protocol::http) ||
           (secure && protocol == Protocol::secure);
  }
};

// What StoreSessions wants done with the sockets, in order. Their owner performs it at once. A
// Write is answered with sent() or, if the socket is broken, with close().
using SessionAction =
    std::variant<session::Write, session::Watch, session::Admit, session::HandOver, session::Close>;

// Receives what the clients of one port send and what is decided, in that order, so that another
// store can be brought to the same state (store_log.h). No call fails: a journal that cannot record
// something has to keep track of that itself.
class StoreJournal {
 public:
  virtual ~StoreJournal() = default;
  // The client has sent these bytes.
  virtual void read(ConnectionId client, std::string_view bytes) noexcept = 0;
  // The next `count` bytes of that client are a request, and it was decided.
  virtual void decided(ConnectionId client, std::size_t count) noexcept = 0;
  // The same for a request that another store might answer in another order.
  virtual void listed(ConnectionId client, std::size_t count, std::string_view reply) noexcept = 0;
  // The client waits no longer, because it has sent another request, which is decided later.
  virtual void abandoned(ConnectionId client) noexcept = 0;
  // The client is gone, and with it what it waited for.
  virtual void closed(ConnectionId client) noexcept = 0;
  // Something happened that none of these calls describes.
  virtual void lost() noexcept = 0;
};

}  // namespace cpprun
