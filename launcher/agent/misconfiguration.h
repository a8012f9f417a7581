// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Setups in which a job waits forever: a script that launches processes of its own
// (SelfLaunchDetector), and unreachable interfaces.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/interfaces.h"
#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun {

// One observation of the first worker on the coordinator's host.
struct WorldLook {
  bool store_asked = false;            // a worker of this round has contacted the store
  std::vector<std::string> listeners;  // "pid 812 listens on port 12355", worker or child
  std::vector<std::string> spawned;    // "pid 812", started by Python's multiprocessing
  Duration processor_time{};           // of the worker and its descendants
  friend bool operator==(const WorldLook&, const WorldLook&) = default;
};

// A script that launches processes of its own (mp.spawn, a server) waits forever under cpprun, as
// it does under torchrun. Its ranks look for a store that no process hosts, because torch leaves
// hosting to the process that set TORCHELASTIC_USE_AGENT_STORE. The coordinator's host can detect
// this: the workers are alive, none of them has contacted the store for a long time, and rank 0 has
// child processes or is idle. Pure: takes observations and returns at most one warning.
class SelfLaunchDetector {
 public:
  // `sleepers`: also suspect an idle worker.
  struct Timeouts {
    Duration silence{};  // of the store, before any worker is suspected
    bool sleepers = false;
  };

  explicit SelfLaunchDetector(Timeouts timeouts) : timeouts_(timeouts) {}

  // The workers of a round are being started.
  void began(TimePoint now);
  // The workers are stopping or gone.
  void over() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether an observation is due. The pause to the next one grows.
  bool take_due(TimePoint now);
  std::optional<std::string> judge(TimePoint now, const WorldLook& look);

 private:
  Timeouts timeouts_;
  TimePoint began_{};
  std::optional<TimePoint> due_;
  Duration pause_{};  // until the next observation
  // From the previous observation.
  TimePoint looked_{};
  std::optional<Duration> processor_time_;
};

// Parsers for the kernel's tables in /proc. io/world_look reads the files.

// Adds the listening ports of a table such as net/tcp, by socket inode.
void add_listening(std::string_view table, std::map<std::string, int>& port_of_inode);

// Parsed from a process's `stat`. Reading `stat` never blocks on the process; reading its command
// line would, on the lock of its memory. Empty if the text is malformed.
struct ProcessUse {
  std::string name;
  Duration processor_time{};
  std::string stack;  // start of the stack: equal in a process that was only forked
};
ProcessUse process_use(const std::string& stat, long ticks_per_second);

// Whether `child` is a newly executed Python, as multiprocessing starts it for mp.spawn. A
// DataLoader only forks.
bool is_spawned(const ProcessUse& child, const ProcessUse& worker);

// Interfaces that exist and are up but do not reach the other nodes: docker0, lo, a card on another
// network. An interface reaches the other nodes if it carries the address from which the master is
// reached, or shares a network with one of a neighbour's addresses. Pure.
//
// This is a suspicion, not proof, since a router may join networks that look separate. So it is a
// warning at the start, and becomes the diagnosis only if the workers fail in the predicted way.
//
// An interface can also look right, on the same network as the interface of that name on another
// node, and not be connected to it. Then the failure is the proof: it names the addresses between
// which no connection came up.

// What is known about the route to the other nodes.
struct WayToOthers {
  std::string local_address;           // our address on the route to the master
  std::vector<std::string> neighbour;  // all addresses of one other node
};

// Whether two literal addresses are on one network. The first one has a prefix: "10.0.0.5/24".
bool shares_network(const std::string& network, const std::string& address);

// The warning about an interface that the user named and that does not reach the other nodes. None
// if there is no such interface, or if the whole job is on this machine.
std::optional<std::string> stray_interface(const std::vector<NetworkInterface>& interfaces,
                                           const WayToOthers& way, const Environment& environment);

// A failed connection, as reported by gloo or NCCL.
struct FailedConnection {
  std::string local;   // empty: not reported
  std::string remote;  // numeric
  friend bool operator==(const FailedConnection&, const FailedConnection&) = default;
};
// The last failed connection in `lines`.
std::optional<FailedConnection> failed_connection(const std::vector<std::string>& lines);

// The same as a diagnosis: the interface of a failed connection, if another interface reaches the
// other nodes. None if the interface used reaches them itself, or is unknown.
std::optional<std::string> unconnected_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment,
                                                 const FailedConnection& connection);

// For a master whose own name resolves to loopback, as in Debian's /etc/hosts: the interface that
// reaches the neighbour. None if the current choice works.
std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way);

}  // namespace cpprun
