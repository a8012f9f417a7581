// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What StoreSessions wants done with the sockets, in order. Whoever owns them does it at once: a
// Write is answered with sent() or, where the socket is broken, with close().

#include <cstdint>
#include <string>
#include <variant>

#include "proto/ids.h"
#include "proto/sniff.h"
#include "rendezvous/peer_address.h"

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
// What a port takes beside stores' clients and links.
struct TakenProtocols {
  bool http = false;
  bool secure = false;
};

using SessionAction =
    std::variant<session::Write, session::Watch, session::Admit, session::HandOver, session::Close>;
}  // namespace cpprun
