// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What StoreSessions keeps of its clients: their outboxes and slots, and the connections that have
// not sent anything yet. Also its actions on sockets, and the journal of its decisions.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/clock.h"
#include "proto/ids.h"
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

// Protocols that a port takes besides those of store clients and links.
struct TakenProtocols {
  bool http = false;
  bool secure = false;
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
