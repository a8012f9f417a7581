// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The parameters of one simulated run: its jobs, its network, and its faults. A plain value, drawn
// from a seed or written by hand.

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

// Stores that are local to each node, and their workers' requests.
struct StorePlan {
  std::size_t window = 256 * 1024;      // of a stream, in bytes
  std::size_t link_room = 64 * 1024;    // bytes that a link takes before it is full
  std::size_t worker_room = 64 * 1024;  // and a worker's connection
  std::size_t value_bytes_max = 100;
  int requests_max = 10;  // of a worker; some are sent together
};

// Several cpprunds with a leader, and their etcd.
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
  double victims = 0.5;           // probability that a neighbour of a dead worker fails too
  bool gentle = false;            // no fault of this run may disturb any worker
  bool has_unidentified = false;  // or had: the run is compared with one without them
  std::vector<Fault> faults;
  std::optional<StorePlan> stores = {};  // none: workers do not use their stores
  bool standby = false;                  // another node takes over when the coordinator's is lost
  std::optional<SetPlan> set = {};       // there are several cpprunds
  bool watches_hangs = false;            // --hang-timeout
  bool secure_wire = false;              // links use TLS; otherwise frames pass unencrypted

  Duration lease() const { return lease_interval * lease_attempts; }
  int nodes() const;
  // The job of that node.
  int job_of(int node) const;
  int workers_of(int node) const;
  // The cpprund that this node contacts first, and whether it knows no other one.
  int first_place(int node) const;
  bool knows_one_place(int node) const;
  // The deadline of every run.
  Duration time_max() const;
};

// The run of this seed, with at most `agents_max` nodes in a job, and faults of these kinds.
Scenario draw(std::uint64_t seed, int agents_max, const FaultKinds& kinds);

// One line about the shape; the faults have lines of their own.
std::string to_text(const Scenario& scenario);

}  // namespace cpprun::sim
