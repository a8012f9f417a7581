// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one simulated run is made of: which jobs of which shapes, how the network is by nature, and
// what goes wrong. A plain value, drawn from a seed or written by hand.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/restart_rules.h"
#include "tests/sim/fault.h"

namespace cpprun::sim {

struct JobShape {
  int nodes_min = 2;
  int nodes_max = 2;
  int surplus = 0;      // nodes beyond the seats: spares
  bool ranked = false;  // every node has its --node_rank
  int workers_per_node = 2;
  bool uneven = false;  // every second node has one worker more
  RestartRules restarts{.max = 2};
  Duration work_max = std::chrono::seconds(20);  // how long the workers of a round compute
  friend bool operator==(const JobShape&, const JobShape&) = default;

  int nodes() const { return nodes_max + surplus; }
};

// Stores that are local to each node, and what workers ask of them.
struct StorePlan {
  std::size_t window = 256 * 1024;      // of a stream, in bytes
  std::size_t link_room = 64 * 1024;    // bytes that a link takes before it is full
  std::size_t worker_room = 64 * 1024;  // and a worker's connection
  std::size_t value_bytes_max = 100;
  int requests_max = 10;  // of a worker, some of which are several at once
};

// Several cpprunds, of which one leads, and their etcd.
inline constexpr int daemons_max = 3;
struct SetPlan {
  int daemons = 2;
  int etcd_members = 3;
  std::size_t link_room = 64 * 1024;  // bytes that a link between them takes before it is full
};

struct Scenario {
  std::uint64_t seed = 1;
  bool daemon = false;  // a cpprund on a machine of its own; else node 0 hosts the coordinator
  std::vector<JobShape> jobs;  // more than one only with a daemon
  Duration lease_interval = std::chrono::seconds(1);
  int lease_attempts = 3;
  Duration grace = std::chrono::seconds(5);
  Duration join_timeout = std::chrono::seconds(120);
  Duration last_call = std::chrono::seconds(5);
  Duration delay_max = std::chrono::milliseconds(2);  // of a packet, one way
  double victims = 0.5;           // chance that the neighbours of a dead worker fail of it
  bool gentle = false;            // whatever goes wrong here must not disturb any worker
  bool has_unidentified = false;  // or had, and is played without them to compare
  std::vector<Fault> faults;
  std::optional<StorePlan> stores = {};  // none: workers do not speak to theirs
  bool standby = false;                  // another node goes on where the coordinator's is lost
  std::optional<SetPlan> set = {};       // the cpprund is several
  bool secure_wire = false;              // links are TLS; else frames pass as they are

  Duration lease() const { return lease_interval * lease_attempts; }
  int nodes() const;
  // The job of that node.
  int job_of(int node) const;
  int workers_of(int node) const;
  // Of several cpprunds the one that this node asks first, and whether it is told of no other.
  int first_place(int node) const;
  bool knows_one_place(int node) const;
  // By when every run must have ended.
  Duration time_max() const;
};

// The run that this seed means, with at most so many agents in a job, and faults of these kinds.
Scenario draw(std::uint64_t seed, int agents_max, const FaultKinds& kinds);

// One sentence of its shape; the faults have sentences of their own.
std::string to_text(const Scenario& scenario);

}  // namespace cpprun::sim
