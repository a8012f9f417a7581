// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Setups in which a job waits forever: a script that launches processes of its own
// (SelfLaunchDetector), a second master (DuplicateMasterCheck), and unreachable interfaces.
// SetupChecks has the checks of one agent.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/agent/coordinator_link.h"
#include "launcher/config.h"
#include "launcher/failure/evidence.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/meeting_place.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/link/message.h"

namespace cpprun {

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
  std::optional<std::string> judge(TimePoint now, const WorldProbe& look);

 private:
  Timeouts timeouts_;
  TimePoint began_{};
  std::optional<TimePoint> due_;
  Duration pause_{};  // until the next observation
  // From the previous observation.
  TimePoint looked_{};
  std::optional<Duration> processor_time_;
};

// Parsers for the kernel's tables in /proc. io/worker_runtime reads the files.

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
std::optional<std::string> unreachable_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment);

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

// Two nodes of one job that both believe they are its master wait for each other forever. So a
// waiting master whose address belongs to another machine asks there periodically which master
// hosts. The reply comes from another master, or from this node itself through a detour such as
// NAT.
class DuplicateMasterCheck {
 public:
  // Asks nothing if all addresses of the master belong to this machine.
  void look_at(TimePoint now, std::vector<std::string> addresses);
  void stop() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // The addresses to ask now. Empty if nothing is due.
  std::vector<std::string> take_due(TimePoint now);

 private:
  std::vector<std::string> addresses_;
  std::optional<TimePoint> due_;
};

struct DuplicateMasterVerdict {
  std::string sentence;  // empty: there is no second master
  bool same_job = false;
};

// What the reply means for this node.
DuplicateMasterVerdict judge_rival(const Config& config, const AgentFacts& facts,
                                   const link::Hosts& answer);

// The checks of one agent: of its address and its interfaces while it waits for other nodes, and of
// its first worker while a round runs. Each problem is reported once.
class SetupChecks {
 public:
  using Actions = std::vector<agent::Action>;

  explicit SetupChecks(SelfLaunchDetector::Timeouts timeouts) : self_launch_(timeouts) {}

  // The master is reached from `local_address`. If this node is the master, `addresses` are those
  // at which other nodes are to reach it.
  void reached(TimePoint now, const Config& config, const AgentFacts& facts,
               std::string local_address, const std::vector<std::string>& addresses,
               Actions& actions);
  // A round is sealed, so `neighbour` is known. May correct the interfaces that the workers use.
  void sealed(TimePoint now, const std::vector<std::string>& neighbour, AgentFacts& facts,
              Actions& actions);
  // Asks the hosts behind the master's address which job they host, if that is due.
  void ask_for_rivals(TimePoint now, const Config& config, const AgentFacts& facts,
                      Actions& actions);
  // The reply. If there is a second master of this job, returns the reason for which this node
  // exits.
  std::optional<std::string> answered(const Config& config, const AgentFacts& facts,
                                      const link::Hosts& hosts, Actions& actions);
  // Looks at the first worker, if that is due and the workers are running.
  void probe_world(TimePoint now, bool are_running, Actions& actions);
  void seen(TimePoint now, const WorldProbe& look, Actions& actions);
  std::optional<TimePoint> next_deadline() const;

  // A weaker doubt about the master's address, which is reported while nodes are missing.
  void tell_doubt(Actions& actions) const;
  const std::optional<Doubt>& doubt() const { return doubt_; }
  // The last warning about an unreachable interface; may be empty.
  const std::string& unreachable_interface() const { return unreachable_interface_; }
  // Adds the interface of a failed connection that a worker has reported.
  void explain(const AgentFacts& facts, Evidence& evidence) const;

 private:
  std::optional<Doubt> doubt_;  // about the address at which other nodes are to reach this master
  DuplicateMasterCheck rivals_;
  WayToOthers way_;  // of the last round
  std::string unreachable_interface_;
  SelfLaunchDetector self_launch_;
};

}  // namespace cpprun
