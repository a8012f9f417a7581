// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <utility>

namespace cpprun {

Session& SessionTable::open(int socket, const PeerAddress& peer, std::uint32_t port) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Session& session = slots_[slot];
  session.id = ConnectionId{(++serial_ << slot_bits) | slot};
  session.socket = socket;
  session.peer = peer;
  session.port = port;
  return session;
}

const Session* SessionTable::find(ConnectionId id) const {
  const std::uint64_t slot = id.value & ((std::uint64_t{1} << slot_bits) - 1);
  if (id.value == 0 || slot >= slots_.size() || slots_[slot].id != id) return nullptr;
  return &slots_[slot];
}

Session* SessionTable::find(ConnectionId id) {
  return const_cast<Session*>(std::as_const(*this).find(id));
}

void SessionTable::release(Session& session) {
  const std::uint64_t slot = session.id.value & ((std::uint64_t{1} << slot_bits) - 1);
  session = Session{};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

}  // namespace cpprun
