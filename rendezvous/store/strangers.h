// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Connections that have not said yet what they speak, in the order in which they came. Whoever says
// nothing may stay, since old clients keep such a connection, but not when somebody else needs its
// descriptor, or its address has all that it may and somebody else comes from there.

#include <deque>

#include "rendezvous/store/session.h"

namespace cpprun {

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

}  // namespace cpprun
