// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Set-ups under which a job waits for ever: a script that launches processes of its own (OwnWorld),
// and interfaces that lead nowhere.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/interfaces.h"
#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun {

// What one look at the first worker of the coordinator's host shows.
struct WorldLook {
  bool store_asked = false;            // some worker of this round has spoken to the store
  std::vector<std::string> listeners;  // "pid 812 listens on port 12355", it or one it has started
  std::vector<std::string> spawned;    // "pid 812", started by Python's multiprocessing
  Duration processor_time{};           // of it and all that it has started
  friend bool operator==(const WorldLook&, const WorldLook&) = default;
};

// A script that launches processes of its own (mp.spawn, a server) under cpprun waits for ever, as
// it does under torchrun: its ranks look for a store that nobody hosts, because torch leaves
// hosting to whoever set TORCHELASTIC_USE_AGENT_STORE. The coordinator's host can see it: the
// workers are alive, none of them has asked the store for a long while, and rank 0 has processes of
// its own or does nothing at all. Pure: looks come in, at most one warning goes out.
class OwnWorld {
 public:
  // `sleepers`: a worker that does nothing is suspected as well.
  struct Timeouts {
    Duration silence{};  // of the store, before anybody is suspected
    bool sleepers = false;
  };

  explicit OwnWorld(Timeouts timeouts) : timeouts_(timeouts) {}

  // The workers of a round are being started.
  void began(TimePoint now);
  // They are asked to end, or gone.
  void over() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether it is time for a look; the next one comes after a pause that grows.
  bool take_due(TimePoint now);
  std::optional<std::string> judge(TimePoint now, const WorldLook& look);

 private:
  Timeouts timeouts_;
  TimePoint began_{};
  std::optional<TimePoint> due_;
  Duration pause_{};  // to the next look
  // Of the look before.
  TimePoint looked_{};
  std::optional<Duration> processor_time_;
};

// What the kernel's tables in /proc say, taken out of their text. Reading them is io/world_look's.

// The served ports of a table like net/tcp, by the inodes of their sockets.
void add_listening(std::string_view table, std::map<std::string, int>& port_of_inode);

// Of a process, from its `stat`, which never waits for it: its command line would, for the lock of
// its memory. Empty where the text is none.
struct ProcessUse {
  std::string name;
  Duration processor_time{};
  std::string stack;  // where it begins: the same in a process that was only forked
};
ProcessUse process_use(const std::string& stat, long ticks_per_second);

// A Python that was executed anew, as multiprocessing does it for mp.spawn; a DataLoader only
// forks.
bool is_spawned(const ProcessUse& child, const ProcessUse& worker);

// Interfaces that exist, are up, and lead nowhere: docker0, lo, a card on another network. An
// interface leads to the other nodes if it carries the address from which the master is reached, or
// shares a network with one of a neighbour's addresses. Pure.
//
// This is a suspicion, not proof, since a router may join networks that look separate. So it is a
// warning at the start, and becomes the verdict only if the workers fail in the way it predicts.
//
// An interface can also look right, on the same network as its namesake of another node, and not be
// connected to it. The proof is in the failure: the addresses between which no connection came up.

// What is known of the way to the others.
struct WayToOthers {
  std::string local_address;           // from which this node reaches the master
  std::vector<std::string> neighbour;  // every address of one other node
};

// Whether two literal addresses are of one network, the first of which has a prefix: "10.0.0.5/24".
bool shares_network(const std::string& network, const std::string& address);

// The warning about an interface the user named that leads nowhere; nothing if there is none, or if
// the whole job is on this machine.
std::optional<std::string> stray_interface(const std::vector<NetworkInterface>& interfaces,
                                           const WayToOthers& way, const Environment& environment);

// A connection that did not come up, by what gloo or NCCL wrote.
struct FailedConnection {
  std::string local;   // empty: it does not say
  std::string remote;  // numeric
  friend bool operator==(const FailedConnection&, const FailedConnection&) = default;
};
// The last one in those lines.
std::optional<FailedConnection> failed_connection(const std::vector<std::string>& lines);

// The same as a verdict: the interface of a failed connection, where another one leads to the
// others. Nothing where that is the interface that leads to them, or is not known.
std::optional<std::string> unconnected_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment,
                                                 const FailedConnection& connection);

// For a master whose own name resolves to loopback, as Debian's /etc/hosts has it: the interface
// that leads to the neighbour. Nothing if the one chosen already will do.
std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way);

}  // namespace cpprun
