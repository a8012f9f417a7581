// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr Duration retransmission = 200ms;  // the minimum cost of a lost packet
constexpr Duration backoff_max = 30s;       // the maximum delay until a healed path is noticed
constexpr double loss_chance = 0.3;         // per packet, while packets are lost

std::size_t index_of(Side side) {
  return static_cast<std::size_t>(side);
}

// The packets that count against the room for stream frames.
bool fills(const Packet& packet) {
  return packet.kind == Packet::Kind::streams || packet.kind == Packet::Kind::cipher;
}

Side other(Side side) {
  return side == Side::agent ? Side::coordinator : Side::agent;
}

}  // namespace

std::string address_of(int node) {
  return fmt::format("10.0.{}.{}", node / 250, node % 250 + 1);
}

Network::Network(Timeline& time, const Scenario& scenario, NetworkEnds ends)
    : time_(time),
      scenario_(scenario),
      ends_(std::move(ends)),
      paths_(static_cast<std::size_t>(scenario.nodes())),
      daemon_paths_(scenario.set ? static_cast<std::size_t>(scenario.set->daemons) : 0) {}

Duration Network::delay(const Connection& connection, Random& random) const {
  const Path& path = paths_[static_cast<std::size_t>(connection.node)];
  TimePoint slow_until = path.slow_until;
  if (scenario_.set) {
    const auto daemon = static_cast<std::size_t>(daemon_at(connection.place));
    slow_until = std::max(slow_until, daemon_paths_[daemon].slow_until);
  }
  Duration delay = 20us + random.up_to(scenario_.delay_max);
  if (slow_until > time_.now()) delay += random.up_to(2s);
  for (Duration stall = retransmission;
       path.lossy_until > time_.now() && random.chance(loss_chance) && stall < 10s; stall *= 2) {
    delay += stall;
  }
  return delay;
}

ConnectionRef Network::dial(int node, int place, Duration timeout) {
  auto connection = std::make_shared<Connection>();
  connection->node = node;
  connection->place = place;
  const int number = path(node).connections++;
  if (scenario_.secure_wire) {
    const auto stream = [&](Side side) {
      return Random{scenario_.seed, 12, node, number, static_cast<int>(side)};
    };
    connection->wire = std::make_shared<SecureWire>(stream(Side::agent), stream(Side::coordinator));
  }
  for (const int way : {0, 1}) {
    connection->ways[static_cast<std::size_t>(way)].random =
        Random{scenario_.seed, 11, node, number, way};
  }
  send(connection, Side::coordinator, {.kind = Packet::Kind::syn});
  time_.later(timeout, [this, connection] {
    if (connection->up || !connection->agent_open) return;
    ends_.agent(connection->node)
        .receive(
            [this, connection] {
              if (connection->up || !connection->agent_open) return;
              close(connection, Side::agent);
              ends_.down(connection, "no answer in time");
            },
            true);
  });
  return connection;
}

void Network::send(const ConnectionRef& connection, Side to, Packet packet) {
  const bool is_said = packet.kind == Packet::Kind::frame ||
                       packet.kind == Packet::Kind::heartbeat ||
                       packet.kind == Packet::Kind::streams;
  if (!connection->wire || !is_said) return enqueue(connection, to, std::move(packet));
  send_pieces(connection, to, connection->wire->say(other(to), packet),
              packet.kind == Packet::Kind::streams);
}

void Network::enqueue(const ConnectionRef& connection, Side to, Packet packet) {
  Connection::Way& way = connection->ways[index_of(to)];
  packet.due = time_.now() + delay(*connection, way.random);
  if (!way.packets.empty()) packet.due = std::max(packet.due, way.packets.back().due);
  if (fills(packet)) way.stream_bytes += packet.bytes.size();
  way.packets.push_back(std::move(packet));
  if (!way.moving) move(connection, to);
}

void Network::move(const ConnectionRef& connection, Side to) {
  Connection::Way& way = connection->ways[index_of(to)];
  way.moving = !way.packets.empty();
  if (!way.moving) return;
  time_.at(way.packets.front().due, [this, connection, to] { pump(connection, to); });
}

void Network::pump(const ConnectionRef& connection, Side to) {
  Connection::Way& way = connection->ways[index_of(to)];
  if (way.packets.empty()) {
    way.moving = false;
    return;
  }
  const TimePoint heals = cut_until(*connection, to);
  if (heals > time_.now()) {
    const Duration outage = heals - way.packets.front().due;
    const Duration late = way.random.up_to(std::clamp<Duration>(outage, 1ms, backoff_max));
    time_.at(heals + late, [this, connection, to] { pump(connection, to); });
    return;
  }
  Packet packet = std::move(way.packets.front());
  way.packets.pop_front();
  move(connection, to);
  const std::size_t size = packet.bytes.size();
  damage(connection, to, packet);
  arrive(connection, to, packet);
  if (scenario_.stores && fills(packet)) make_room(connection, to, size);
}

// With a standby, a cut of the node that hosts the coordinator affects all nodes.
TimePoint Network::cut_until(const Connection& connection, Side to) const {
  const auto& own = paths_[static_cast<std::size_t>(connection.node)].cut_until;
  if (scenario_.set) {
    const auto daemon = static_cast<std::size_t>(daemon_at(connection.place));
    return std::max(own[index_of(to)], daemon_paths_[daemon].cut_until[index_of(to)]);
  }
  if (!scenario_.standby) return own[index_of(to)];
  const auto host = static_cast<std::size_t>(std::max(connection.place, 0));
  return std::max(own[index_of(to)], paths_[host].cut_until[index_of(other(to))]);
}

bool Network::is_host_up(int place) const {
  if (scenario_.set) return daemon_paths_[static_cast<std::size_t>(daemon_at(place))].host_up;
  if (place == master_place) return coordinator_host_up;
  return paths_[static_cast<std::size_t>(place)].host_up;
}

bool Network::has_room(const ConnectionRef& connection, Side to) const {
  return connection->ways[index_of(to)].stream_bytes < scenario_.stores->link_room;
}

bool Network::is_calm(const Connection& connection) {
  return connection.up && connection.agent_open && connection.coordinator_open &&
         !connection.black_hole && !connection.is_damaged && connection.ways[0].packets.empty() &&
         connection.ways[1].packets.empty();
}

void Network::make_room(const ConnectionRef& connection, Side to, std::size_t size) {
  const bool had_room = has_room(connection, to);
  std::size_t& bytes = connection->ways[index_of(to)].stream_bytes;
  bytes -= std::min(bytes, size);
  if (had_room || !has_room(connection, to)) return;
  Program& sender = to == Side::coordinator ? ends_.agent(connection->node)
                                            : ends_.coordinator(connection->place);
  sender.receive([this, connection, to] { ends_.has_room(connection, to); });
}

void Network::arrive(const ConnectionRef& connection, Side to, const Packet& packet) {
  if (connection->black_hole) return;
  if (to == Side::coordinator) {
    if (is_host_up(connection->place)) arrive_at_coordinator(connection, packet);
  } else if (path(connection->node).host_up) {
    arrive_at_agent(connection, packet);
  }
}

void Network::arrive_at_coordinator(const ConnectionRef& connection, const Packet& packet) {
  const bool ends = packet.kind == Packet::Kind::fin || packet.kind == Packet::Kind::reset;
  const bool no_peer = !ends_.coordinator(connection->place).alive() ||
                       !ends_.serves(connection->place) ||
                       (packet.kind != Packet::Kind::syn &&
                        (!connection->coordinator_open || !is_served(*connection)));
  if (no_peer) {
    if (!ends) send(connection, Side::agent, {.kind = Packet::Kind::reset});
    return;
  }
  if (packet.kind == Packet::Kind::syn) {
    connection->coordinator_open = true;  // The kernel accepts.
    connection->served_by = coordinators_ended_[connection->place];
  }
  // Stream frames and incomplete messages do not show that the agent is alive.
  const bool shows_agent =
      packet.kind != Packet::Kind::streams && !packet.hides_agent && !connection->is_damaged;
  if (shows_agent) connection->arrived = time_.now();
  ends_.coordinator(connection->place).receive([this, connection, packet, ends] {
    if (packet.kind == Packet::Kind::syn) {
      if (!connection->wire) begin_link(connection, Side::coordinator);
      send(connection, Side::agent, {.kind = Packet::Kind::greeting});
      return;
    }
    if (!connection->coordinator_open) return;
    if (packet.kind == Packet::Kind::cipher)
      return hear_pieces(connection, Side::coordinator, packet);
    if (!ends) {
      ends_.to_coordinator(connection, packet);
      return;
    }
    const bool broken = packet.kind == Packet::Kind::reset;
    end(connection, Side::coordinator,
        broken ? "connection reset by peer" : "connection closed by the peer", broken);
  });
}

void Network::arrive_at_agent(const ConnectionRef& connection, const Packet& packet) {
  const bool ends = packet.kind == Packet::Kind::fin || packet.kind == Packet::Kind::reset;
  if (!connection->agent_open || !ends_.agent(connection->node).alive()) {
    if (!ends) send(connection, Side::coordinator, {.kind = Packet::Kind::reset});
    return;
  }
  ends_.agent(connection->node).receive([this, connection, packet, ends] {
    if (!connection->agent_open) return;
    if (packet.kind == Packet::Kind::greeting) {
      if (!connection->wire) return begin_link(connection, Side::agent);
      send_pieces(connection, Side::coordinator, connection->wire->begin(), false);
    } else if (packet.kind == Packet::Kind::cipher) {
      hear_pieces(connection, Side::agent, packet);
    } else if (!ends) {
      ends_.to_agent(connection, packet);
    } else {
      const bool refused = !connection->up && packet.kind == Packet::Kind::reset;
      end(connection, Side::agent,
          refused ? "connection refused: nothing listens there (yet)"
                  : "connection closed by the peer",
          packet.kind == Packet::Kind::reset);
    }
  });
}

void Network::end(const ConnectionRef& connection, Side at, const std::string& reason,
                  bool broken) {
  if (at == Side::agent) {
    connection->agent_open = false;
    ends_.down(connection, reason);
    return;
  }
  connection->coordinator_open = false;
  accepted_.erase(connection->link);
  ends_.closed(connection, reason, broken);
}

// By the current process. Without TLS, each process has accepted its own connections.
bool Network::is_served(const Connection& connection) const {
  return !connection.wire || connection.served_by == coordinators_ended_[connection.place];
}

void Network::close(const ConnectionRef& connection, Side closing, bool breaks) {
  bool& open = closing == Side::agent ? connection->agent_open : connection->coordinator_open;
  if (!std::exchange(open, false)) return;
  if (closing == Side::coordinator) accepted_.erase(connection->link);
  if (connection->wire && !breaks) {
    send_pieces(connection, other(closing), connection->wire->finish(closing), true);
  }
  send(connection, other(closing), {.kind = breaks ? Packet::Kind::reset : Packet::Kind::fin});
}

ConnectionRef Network::find(LinkId link) const {
  const auto found = accepted_.find(link);
  return found == accepted_.end() ? nullptr : found->second;
}

std::optional<int> Network::connected_node(int place) const {
  for (const auto& [link, connection] : accepted_) {
    if (connection->place == place) return connection->node;
  }
  return std::nullopt;
}

std::vector<LinkId> Network::links_at(int place) const {
  std::vector<LinkId> links;
  for (const auto& [link, connection] : accepted_) {
    if (connection->place == place) links.push_back(link);
  }
  return links;
}

// By value: the callbacks release the connection.
void Network::sever(ConnectionRef connection, bool tell_agent, bool tell_coordinator) {
  if (!connection || !connection->up) return;
  for (auto& way : connection->ways) way.packets.clear();
  if (tell_agent) arrive(connection, Side::agent, {.kind = Packet::Kind::reset});
  if (tell_coordinator) arrive(connection, Side::coordinator, {.kind = Packet::Kind::reset});
  connection->black_hole = true;
}

void Network::coordinator_ended(int place) {
  ++coordinators_ended_[place];
  std::vector<ConnectionRef> open;
  for (const auto& [link, connection] : accepted_) {
    if (connection->place == place) open.push_back(connection);
  }
  for (const ConnectionRef& connection : open) {
    accepted_.erase(connection->link);
    connection->coordinator_open = false;
    if (is_host_up(place)) {
      send(connection, Side::agent, {.kind = Packet::Kind::reset});
    } else {
      machine_died(connection, Side::coordinator);
    }
  }
}

void Network::machine_died(const ConnectionRef& connection, Side dead) {
  if (!connection) return;
  (dead == Side::agent ? connection->agent_open : connection->coordinator_open) = false;
  connection->ways[index_of(other(dead))].packets.clear();
}

}  // namespace cpprun::sim
