// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection.h"

namespace cpprun {

Connection& ConnectionTable::open(int fd, const PeerAddress& peer, std::uint32_t listener) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Connection& connection = slots_[slot];
  connection.id = ConnectionId{(++serial_ << slot_bits) | slot};
  connection.fd = fd;
  connection.peer = peer;
  connection.listener = listener;
  return connection;
}

Connection* ConnectionTable::find(ConnectionId id) {
  const std::uint64_t slot = id.value & ((std::uint64_t{1} << slot_bits) - 1);
  if (id.value == 0 || slot >= slots_.size() || slots_[slot].id != id) return nullptr;
  return &slots_[slot];
}

void ConnectionTable::release(Connection& connection) {
  const std::uint64_t slot = connection.id.value & ((std::uint64_t{1} << slot_bits) - 1);
  connection = Connection{};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

}  // namespace cpprun
