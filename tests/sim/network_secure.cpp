// SPDX-License-Identifier: BSD-3-Clause
// TLS connections: how they start, how frames become pieces of bytes, and the effect of damaged
// bytes.

#include <algorithm>
#include <utility>

#include "tests/sim/network.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

std::size_t secure_index_of(Side side) {
  return static_cast<std::size_t>(side);
}

}  // namespace

// TCP keeps the order of bytes, but no message boundaries.
void Network::send_pieces(const ConnectionRef& connection, Side to, std::string bytes,
                          bool hides_agent) {
  Connection::Way& way = connection->ways[secure_index_of(to)];
  while (!bytes.empty()) {
    const bool is_cut = bytes.size() > 1 && way.random.chance(0.5);
    const std::size_t size = is_cut ? 1 + way.random.next() % (bytes.size() - 1) : bytes.size();
    enqueue(connection, to,
            {.kind = Packet::Kind::cipher,
             .bytes = bytes.substr(0, size),
             .hides_agent = hides_agent || size < bytes.size()});
    bytes.erase(0, size);
  }
}

// An attacker in between, once: flips a bit, removes a few bytes, or exchanges two pieces.
void Network::damage(const ConnectionRef& connection, Side to, Packet& packet) {
  std::optional<int>& wanted = path(connection->node).damage;
  if (!wanted || packet.kind != Packet::Kind::cipher) return;
  const int how = *std::exchange(wanted, std::nullopt) % 3;
  Connection::Way& way = connection->ways[secure_index_of(to)];
  const bool has_next = !way.packets.empty() && way.packets.front().kind == Packet::Kind::cipher;
  if (how == 0 && has_next) {
    std::swap(packet.bytes, way.packets.front().bytes);
  } else if (how == 1 && packet.bytes.size() > 1) {
    packet.bytes.erase(packet.bytes.size() / 2, 1 + way.random.next() % 8);
  } else {
    packet.bytes[way.random.next() % packet.bytes.size()] ^= 1;
  }
  connection->is_damaged = true;
}

void Network::hear_pieces(const ConnectionRef& connection, Side at, const Packet& packet) {
  const SecureWire::Heard heard = connection->wire->hear(at, packet.bytes);
  const bool is_agent = at == Side::agent;
  const bool& is_open = is_agent ? connection->agent_open : connection->coordinator_open;
  const Side there = is_agent ? Side::coordinator : Side::agent;
  send_pieces(connection, there, heard.answer, false);
  if (!heard.is_true) ends_.lies(connection);
  if (heard.is_begun) begin_link(connection, at);
  for (const Packet& each : heard.packets) {
    if (!is_open) return;
    if (is_agent) {
      ends_.to_agent(connection, each);
    } else {
      ends_.to_coordinator(connection, each);
    }
  }
  if (heard.reason.empty() || !is_open) return;
  ends_.fails(connection, heard.reason);
  end(connection, at, heard.reason, true);
  send(connection, there, {.kind = Packet::Kind::fin});
}

// That side has authenticated the other.
void Network::begin_link(const ConnectionRef& connection, Side at) {
  if (at == Side::agent) {
    connection->up = true;
    ends_.up(connection);
    return;
  }
  ends_.accepted(connection);
  accepted_[connection->link] = connection;
}

}  // namespace cpprun::sim
