// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What is remembered of one connection between two looks at it: a slot of fixed size, and a backlog
// only while bytes wait in either direction. The slots of all connections live in one table.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "proto/c10d/decoder.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/outbox.h"
#include "rendezvous/store/store.h"

namespace cpprun {

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

}  // namespace cpprun
