// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The network between the nodes and the coordinator, as TCP shows it: within a connection nothing
// is lost or reordered, but it stalls, ends, or silently drops everything; connections overtake
// each other. Each node has its own path to the coordinator, which can be cut in either direction;
// what was sent into a cut arrives when it heals, later the longer it lasted.

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/rank.h"
#include "tests/sim/packet.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/scenario.h"
#include "tests/sim/secure_wire.h"
#include "tests/sim/timeline.h"

namespace cpprun::sim {

// The numeric address of that node's machine.
std::string address_of(int node);

// The place of a coordinator: the configured one, a cpprund's machine or node 0; otherwise the
// number of the standby node.
inline constexpr int master_place = -1;

// Each of several cpprunds has a place, the first one the master's.
inline constexpr int daemon_place(int daemon) {
  return master_place - daemon;
}
inline constexpr int daemon_at(int place) {
  return master_place - place;
}

// The path between one node and the coordinator.
struct Path {
  std::array<TimePoint, 2> cut_until{};  // by receiving side
  TimePoint lossy_until{};
  TimePoint slow_until{};
  bool host_up = true;
  bool dialled = false;
  int connections = 0;  // made so far
  // The pending damage to the bytes of a TLS connection.
  std::optional<int> damage = {};
};

struct Connection {
  int node = 0;
  int place = master_place;  // of the coordinator at the other end
  LinkId link{};             // once the coordinator has accepted it
  bool agent_open = true;
  bool coordinator_open = false;
  bool up = false;          // the agent knows that it is established
  bool black_hole = false;  // drops everything without notice
  TimePoint arrived{};      // when the last packet reached the coordinator's machine, read or not
  std::shared_ptr<SecureWire> wire = {};  // null: frames are not encrypted
  // the coordinator process that has accepted it, if there is a wire
  std::uint64_t served_by = 0;
  bool is_damaged = false;
  struct Way {
    std::deque<Packet> packets;
    bool moving = false;           // the first packet is on the timeline
    std::size_t stream_bytes = 0;  // bytes of the stream packets
    Random random{0};
  };
  std::array<Way, 2> ways = {};  // by receiving side
};
using ConnectionRef = std::shared_ptr<Connection>;

// The two ends of connections.
struct NetworkEnds {
  std::function<Program&(int node)> agent;
  std::function<Program&(int place)> coordinator;
  std::function<bool(int place)> serves;  // there is a coordinator in that process
  std::function<void(const ConnectionRef&)> up;
  std::function<void(const ConnectionRef&, const Packet&)> to_agent;
  std::function<void(const ConnectionRef&, const std::string& reason)> down;
  std::function<void(const ConnectionRef&)> accepted;  // fills in `link`
  std::function<void(const ConnectionRef&, const Packet&)> to_coordinator;
  std::function<void(const ConnectionRef&, const std::string& reason, bool broken)> closed;
  // There is room again for stream frames to that side.
  std::function<void(const ConnectionRef&, Side to)> has_room;
  // Bytes that the other side cannot have sent; `reason` is a clause.
  std::function<void(const ConnectionRef&, const std::string& reason)> fails;
  // Bytes were taken for a message that the other side has not sent.
  std::function<void(const ConnectionRef&)> lies;
};

class Network {
 public:
  Network(Timeline& time, const Scenario& scenario, NetworkEnds ends);

  Path& path(int node) { return paths_[static_cast<std::size_t>(node)]; }
  // The path between all nodes and one of several cpprunds.
  Path& daemon_path(int daemon) { return daemon_paths_[static_cast<std::size_t>(daemon)]; }
  bool coordinator_host_up = true;

  bool is_host_up(int place) const;
  // Gives up after `timeout`.
  ConnectionRef dial(int node, int place, Duration timeout);
  void send(const ConnectionRef& connection, Side to, Packet packet);
  // Whether it takes stream frames; other frames are few and need no room.
  bool has_room(const ConnectionRef& connection, Side to) const;
  // The connection is up, undamaged and has nothing in flight.
  static bool is_calm(const Connection& connection);
  // In order: earlier packets still arrive.
  void close(const ConnectionRef& connection, Side closing, bool breaks = false);
  // The coordinator's end of that link, if it is open.
  ConnectionRef find(LinkId link) const;
  // A node whose link that coordinator has accepted and not closed.
  std::optional<int> connected_node(int place) const;
  std::vector<LinkId> links_at(int place) const;

  // Something in between ended the connection, and both sides, one or none learn of it.
  void sever(ConnectionRef connection, bool tell_agent, bool tell_coordinator);
  // The coordinator's process ended: its kernel resets every connection, unless the machine is off.
  void coordinator_ended(int place);
  // The machine at that end of a connection lost its power.
  void machine_died(const ConnectionRef& connection, Side dead);

 private:
  void move(const ConnectionRef& connection, Side to);
  void pump(const ConnectionRef& connection, Side to);
  void arrive(const ConnectionRef& connection, Side to, const Packet& packet);
  void make_room(const ConnectionRef& connection, Side to, std::size_t size);
  void enqueue(const ConnectionRef& connection, Side to, Packet packet);
  void end(const ConnectionRef& connection, Side at, const std::string& reason, bool broken);
  bool is_served(const Connection& connection) const;
  TimePoint cut_until(const Connection& connection, Side to) const;

  // --- TLS connections (network_secure.cpp) ---
  void send_pieces(const ConnectionRef& connection, Side to, std::string bytes, bool hides_agent);
  void damage(const ConnectionRef& connection, Side to, Packet& packet);
  void hear_pieces(const ConnectionRef& connection, Side at, const Packet& packet);
  void begin_link(const ConnectionRef& connection, Side at);
  void arrive_at_coordinator(const ConnectionRef& connection, const Packet& packet);
  void arrive_at_agent(const ConnectionRef& connection, const Packet& packet);
  Duration delay(const Connection& connection, Random& random) const;

  Timeline& time_;
  const Scenario& scenario_;
  NetworkEnds ends_;
  std::vector<Path> paths_;
  std::vector<Path> daemon_paths_;                           // of several cpprunds
  std::map<LinkId, ConnectionRef> accepted_;                 // whose coordinator's end is open
  mutable std::map<int, std::uint64_t> coordinators_ended_;  // by place
};

}  // namespace cpprun::sim
