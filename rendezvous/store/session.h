// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What StoreSessions keeps of its clients: their outboxes and slots, and those that have not spoken
// yet. Also what it wants done with sockets, and the journal of its decisions.

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
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun::session {

// Why something is to be written, which decides what becomes of a client that does not take it.
enum class Cause : std::uint8_t {
  own_requests,    // replies to what it asked: too many of them and nothing more of it is read
  others,          // what others caused, which can't be held back: too much of it ends the client
  socket_has_room  // the rest of what it did not take before
};

// Bytes wait for that client: StoreSessions::pieces() says where they lie.
struct Write {
  ConnectionId to;
  int socket = -1;
  Cause cause = Cause::own_requests;
  std::string last_reason{};  // not empty: it is closed with that reason when they are written
  friend bool operator==(const Write&, const Write&) = default;
};

// From now on that socket is watched for that.
struct Watch {
  ConnectionId id;
  int socket = -1;
  bool for_bytes = true;
  bool for_room = false;
  friend bool operator==(const Watch&, const Watch&) = default;
};

// It speaks the store's protocol and has not been let in yet: admit() or close() it.
struct Admit {
  ConnectionId id;
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  friend bool operator==(const Admit&, const Admit&) = default;
};

// It speaks the link, or what else that port takes, and is the owner's from now on.
// `first_bytes` were read already.
struct HandOver {
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  Protocol speaks = Protocol::link;
  std::string first_bytes;
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// It is forgotten: close its socket. `reason` completes "closed: ".
struct Close {
  int socket = -1;
  std::uint32_t port = 0;
  PeerAddress peer;
  bool was_client = false;   // of the store; false: it had not said yet what it is
  bool is_ordinary = false;  // it simply left
  std::string reason;
  friend bool operator==(const Close&, const Close&) = default;
};

}  // namespace cpprun::session

namespace cpprun {

// Replies that wait for a client to take them. Short ones are copied into it one behind the other;
// values of the store are only referred to, so that the same large value in the outboxes of many
// clients, or many times in that of one, is one value in memory.
class Outbox {
 public:
  bool empty() const { return copied_.empty() && next_ == shared_.size(); }
  // Bytes that are still to be sent.
  std::size_t size() const { return copied_.size() + shared_left_; }
  // Bytes of memory that are its own.
  std::size_t own_bytes() const { return copied_.capacity() + shared_.capacity() * sizeof(Placed); }

  void append(std::string_view bytes) { copied_.append(bytes); }
  void append(const Pieces& pieces);

  // The next bytes to be sent, where they lie: at most so many pieces of so many bytes in all.
  std::span<const std::string_view> next(std::span<std::string_view> room,
                                         std::size_t bytes_max) const;
  void drop_front(std::size_t count);
  // All of them, copied.
  std::string text() const;

 private:
  struct Placed {
    std::size_t copied_before = 0;  // bytes of copied_ before it, counted from the first ever
    Slice slice;
  };

  ByteBuffer copied_;
  std::size_t copied_taken_ = 0;  // bytes of it that are gone
  std::vector<Placed> shared_;
  std::size_t next_ = 0;         // of shared_: those before it are gone
  std::size_t shared_left_ = 0;  // bytes
};

// A LIST_KEYS that is answered in several turns.
struct Listing {
  std::size_t asked = 0;  // bytes of the request
  KeyListing progress;
  ByteBuffer bytes;  // of the reply, without the number of keys in front
};

struct Backlog {
  ByteBuffer inbox;              // the beginning of a request, and what came behind it
  std::size_t inbox_needed = 0;  // bytes before it is worth looking at again
  c10d::Progress progress;       // of the request in the inbox
  Outbox outbox;                 // replies that were not taken yet
  std::unique_ptr<Listing> listing;
  std::size_t bytes_charged = 0;  // what the books know of all that
  TimePoint last_taken{};  // when the peer last took some of them, or when they began to wait
};

enum class Speaks : std::uint8_t { unknown_yet, store };

// What is remembered of one connection between two looks at it: a slot of fixed size, and a backlog
// only while bytes wait in either direction. The slots of all connections live in one table.
struct Session {
  ConnectionId id;  // 0: the slot is free
  std::unique_ptr<Backlog> backlog;
  int socket = -1;         // what the owner of the sockets calls it; nothing is done with it here
  std::uint32_t port = 0;  // through which it came
  PeerAddress peer;
  AccountId account;
  c10d::Conversation conversation;
  Speaks speaks = Speaks::unknown_yet;
  bool is_paused = false;          // its requests are left alone until it takes replies
  bool is_timed = false;           // a timer will look whether it took something meanwhile
  bool is_ambiguous = false;       // a timer will decide what its request means
  bool awaits_writable = false;    // more is sent when the socket takes it
  bool awaits_turn = false;        // in the line of those who have requests left to be decided
  bool is_queued_to_send = false;  // in the line of those who have something to be sent
  bool is_doomed = false;          // it will be closed as soon as there is time; nobody serves it
};

// An id holds the slot's number and a serial, so that finding is one look and a stale id finds
// nothing. Slots do not move.
class SessionTable {
 public:
  Session& open(int socket, const PeerAddress& peer, std::uint32_t port);
  // Null when that connection is gone.
  Session* find(ConnectionId id);
  const Session* find(ConnectionId id) const;
  // The slot is free from now on; its socket is the owner's to close.
  void release(Session& session);

  std::size_t size() const { return slots_.size() - free_.size(); }
  // For sweeps over all of them; free slots among them have id 0.
  std::deque<Session>& slots() { return slots_; }
  const std::deque<Session>& slots() const { return slots_; }

 private:
  static constexpr int slot_bits = 24;  // sixteen million connections, and 2^40 over a lifetime

  std::deque<Session> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
};

// Connections that have not said yet what they speak, in the order in which they came. Whoever says
// nothing may stay, since old clients keep such a connection, but not when somebody else needs its
// descriptor, or its address has all that it may and somebody else comes from there.
class Strangers {
 public:
  void add(ConnectionId id, SessionTable& table);
  // Who has been silent for longest, `newest` excepted; null where nobody is.
  Session* longest_silent(SessionTable& table, ConnectionId newest = {});
  // The same of those that count for that address (PeerAddress::source).
  Session* longest_silent_of(SessionTable& table, const PeerAddress& source) const;

 private:
  // Those who have spoken or gone meanwhile are among them until somebody looks.
  std::deque<ConnectionId> line_;
};

// What a port takes beside stores' clients and links.
struct TakenProtocols {
  bool http = false;
  bool secure = false;
};

// What StoreSessions wants done with the sockets, in order. Whoever owns them does it at once: a
// Write is answered with sent() or, where the socket is broken, with close().
using SessionAction =
    std::variant<session::Write, session::Watch, session::Admit, session::HandOver, session::Close>;

// Who is told what the clients of one port say and what is decided of it, in that order, so that
// another store can be brought to the same state (store_log.h). None of it fails: where something
// cannot be kept, whoever keeps it knows.
class StoreJournal {
 public:
  virtual ~StoreJournal() = default;
  // That client has said so much.
  virtual void read(ConnectionId client, std::string_view bytes) noexcept = 0;
  // The next so many bytes of it are a request, and were decided.
  virtual void decided(ConnectionId client, std::size_t count) noexcept = 0;
  // The same of one whose answer another store might put in another order.
  virtual void listed(ConnectionId client, std::size_t count, std::string_view reply) noexcept = 0;
  // It waits no longer, for it asks for something else, which is decided later.
  virtual void abandoned(ConnectionId client) noexcept = 0;
  // It is gone, with what it waited for.
  virtual void closed(ConnectionId client) noexcept = 0;
  // Something has happened that is none of these.
  virtual void lost() noexcept = 0;
};

}  // namespace cpprun
