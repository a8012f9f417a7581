// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One thing that goes wrong in a simulated run: what, when, for how long, to whom. A run's faults
// are an explicit list, so that a failing run can be made smaller by leaving some of them out.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun::sim {

enum class FaultKind {
  worker_exits,         // with a code that is not 0, or of a signal
  worker_crashes,       // so do its next starts, at once
  spawn_fails,          // the next start of that worker
  worker_hangs,         // ignores TERM from here on
  worker_stuck,         // sits in the kernel: not even KILL ends it, for a while or for ever
  worker_leaves,        // it has started others, in its group or outside, which stay when it ends
  agent_killed,         // SIGKILL of a cpprun; its watchdog cleans up
  agent_stopped,        // SIGSTOP, and SIGCONT later; the workers go on
  agent_signalled,      // SIGTERM or SIGINT, sometimes twice
  host_dies,            // power off: nobody is told anything
  node_returns,         // a new cpprun on the machine of one that is gone
  node_is_late,         // starts only then
  link_breaks,          // both ends are told
  half_open,            // one end is told, or none
  partition,            // some nodes cannot be reached, nor reach anybody, for a while
  one_way_out,          // what these nodes say does not arrive
  one_way_in,           // what is said to them does not arrive
  loss,                 // packets are lost: TCP stalls and repeats
  slow_network,         // packets take long
  clock_skew,           // the wall clock is wrong from the start, the other one runs fast or slow
  clock_jump,           // of the wall clock
  coordinator_killed,   // SIGKILL of the coordinator's process
  coordinator_stopped,  // SIGSTOP of it, and SIGCONT
  coordinator_host_dies,
  coordinator_restarted,  // SIGKILL of a cpprund, or its machine, and another goes on with its jobs
  drained_reset,          // the link of a node that has just said Drained is reset
  unidentified,           // lies to the coordinator, and knows of no job, or not its terms
  liar,                   // the same, from a seat in a job of its own
  order_stop,             // an operator asks, of the job of that node, or of the node
  order_restart,
  order_save,
  order_drain,
  order_exclude,
  order_include,
  order_forget,
  restart_rules,       // no fault: every job has purses, breakers and limits of its own
  local_stores,        // no fault: stores are local to each node, and workers use them
  standby,             // no fault: a node goes on with the job where the coordinator's is lost
  replica_controller,  // no fault: there are several cpprunds, of which one leads, and an etcd
  daemon_cut,          // one of them does not reach nodes, or the others, or etcd, for a while
  daemon_skew,         // its clocks run fast or slow
  hand_over,           // an operator asks for it, or the one that leads ends in an orderly way
  etcd_trouble,   // a member is stopped, cut off or crashes; or an election, no room, a slow one
  secure_wire,    // no fault: every link passes through the real codec and TLS, in pieces
  all_suspended,  // every machine for the same time, as by a scheduler; packets wait as well
  bytes_damaged,  // somebody changes, removes or exchanges bytes of a link that does
};

struct Fault {
  FaultKind kind{};
  Duration at{};
  Duration lasts{};        // partitions, stops and the like
  std::vector<int> nodes;  // to whom; none where it is the coordinator
  int local_rank = 0;
  int value = 0;  // which code, how many times, which end: see World
  friend bool operator==(const Fault&, const Fault&) = default;
};

using FaultKinds = std::set<FaultKind>;

// "partition 12.3 s for 4 s, nodes 1 2".
std::string to_text(const Fault& fault);
std::string_view name_of(FaultKind kind);
// "all", "none", names of kinds and of groups (workers, agents, network, clocks, coordinator), with
// commas between them. What was added later, in the groups moments, strangers,
// orders and policies, is not in "all", so that older seeds still mean what they meant; it is in
// "everything". The groups records, stores, standby, wire and suspension are in neither: they are
// named.
Result<FaultKinds> parse_kinds(std::string_view text);
// For --help.
std::string kinds_text();

}  // namespace cpprun::sim
