// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The network between the nodes and the coordinator, as TCP shows it: within a connection nothing
// is lost or overtaken, but it stalls, ends, or silently leads nowhere; connections overtake each
// other. Each node has a path of its own to the coordinator, which can be cut in either direction;
// what was sent into a cut arrives when it heals, and later the longer it lasted.

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/ids.h"
#include "proto/link/message.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/scenario.h"
#include "tests/sim/timeline.h"

namespace cpprun::sim {

enum class Side { agent, coordinator };

// Numeric, of that node's machine.
std::string address_of(int node);

// Between one node and the coordinator.
struct Path {
  std::array<TimePoint, 2> cut_until{};  // by the side that is sent to
  TimePoint lossy_until{};
  TimePoint slow_until{};
  bool host_up = true;
  bool dialled = false;
  int connections = 0;  // made so far
};

struct Packet {
  enum class Kind { syn, greeting, frame, heartbeat, streams, fin, reset };
  Kind kind = Kind::frame;
  link::Heartbeat heartbeat = {};  // as it is: there are too many to encode them all
  std::string bytes = {};
  TimePoint due{};
};

struct Connection {
  int node = 0;
  LinkId link{};  // once the coordinator has accepted it
  bool agent_open = true;
  bool coordinator_open = false;
  bool up = false;          // the agent has been told
  bool black_hole = false;  // leads nowhere any more, and nobody says so
  TimePoint arrived{};      // the last that came to the coordinator's machine, read or not
  struct Way {
    std::deque<Packet> packets;
    bool moving = false;           // the first of them is on the timeline
    std::size_t stream_bytes = 0;  // of those of them that carry streams
    Random random{0};
  };
  std::array<Way, 2> ways = {};  // by the side that is sent to
};
using ConnectionRef = std::shared_ptr<Connection>;

// Who sits at the ends.
struct NetworkEnds {
  std::function<Program&(int node)> agent;
  Program& coordinator;
  std::function<void(const ConnectionRef&)> up;
  std::function<void(const ConnectionRef&, const Packet&)> to_agent;
  std::function<void(const ConnectionRef&, const std::string& reason)> down;
  std::function<void(const ConnectionRef&)> accepted;  // fills in `link`
  std::function<void(const ConnectionRef&, const Packet&)> to_coordinator;
  std::function<void(LinkId, const std::string& reason, bool broken)> closed;
  // Whoever sends to that side has room again for frames of streams.
  std::function<void(const ConnectionRef&, Side to)> has_room;
};

class Network {
 public:
  Network(Timeline& time, const Scenario& scenario, NetworkEnds ends);

  Path& path(int node) { return paths_[static_cast<std::size_t>(node)]; }
  bool coordinator_host_up = true;

  ConnectionRef dial(int node);
  void send(const ConnectionRef& connection, Side to, Packet packet);
  // Whether it takes frames of streams: the others are few, and wait for nobody.
  bool has_room(const ConnectionRef& connection, Side to) const;
  // Nothing is under way in it, and nothing is in the way.
  static bool is_calm(const Connection& connection);
  // In order: what was sent before still arrives.
  void close(const ConnectionRef& connection, Side closing);
  // The coordinator's end of that link, where it is open.
  ConnectionRef find(LinkId link) const;
  // Some node whose link the coordinator has accepted and not closed.
  std::optional<int> connected_node() const;

  // Something between the two ended it, and tells both sides, one, or none.
  void sever(ConnectionRef connection, bool tell_agent, bool tell_coordinator);
  // The coordinator's process ended: its kernel resets every connection, unless the machine is off.
  void coordinator_ended();
  // The machine at that end of a connection lost power.
  void machine_died(const ConnectionRef& connection, Side dead);

 private:
  void move(const ConnectionRef& connection, Side to);
  void pump(const ConnectionRef& connection, Side to);
  void arrive(const ConnectionRef& connection, Side to, const Packet& packet);
  void make_room(const ConnectionRef& connection, Side to, const Packet& packet);
  void arrive_at_coordinator(const ConnectionRef& connection, const Packet& packet);
  void arrive_at_agent(const ConnectionRef& connection, const Packet& packet);
  Duration delay(const Path& path, Random& random) const;

  Timeline& time_;
  const Scenario& scenario_;
  NetworkEnds ends_;
  std::vector<Path> paths_;
  std::map<LinkId, ConnectionRef> accepted_;  // whose coordinator's end is open
};

}  // namespace cpprun::sim
