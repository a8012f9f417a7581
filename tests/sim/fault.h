// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One fault of a simulated run: its kind, time, duration and victims. The faults of a run are an
// explicit list, so that a failing run can be made smaller by leaving some of them out.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun::sim {

enum class FaultKind {
  worker_exits,     // with a code other than 0, or by a signal
  worker_crashes,   // its next starts crash too, at once
  spawn_fails,      // the next start of that worker
  worker_hangs,     // ignores SIGTERM from here on
  worker_stuck,     // stuck in the kernel: even SIGKILL does not end it, for a while or forever
  worker_leaves,    // has started processes, in its group or outside, which outlive it
  agent_killed,     // SIGKILL of a cpprun; its watchdog cleans up
  agent_stopped,    // SIGSTOP, and SIGCONT later; the workers continue
  agent_signalled,  // SIGTERM or SIGINT, sometimes twice
  agent_upgraded,   // another program takes its place, if it can
  host_dies,        // power off, without any notice
  node_returns,     // a new cpprun on the machine of a node that is gone
  node_is_late,     // starts only at that time
  link_breaks,      // both ends learn of it
  half_open,        // one end learns of it, or none
  partition,        // some nodes are cut off for a while
  one_way_out,      // messages of these nodes do not arrive
  one_way_in,       // messages to these nodes do not arrive
  loss,             // packets are lost: TCP stalls and repeats
  slow_network,     // packets take long
  // the wall clock is wrong from the start, the monotonic one runs fast or slow
  clock_skew,
  clock_jump,           // of the wall clock
  coordinator_killed,   // SIGKILL of the coordinator's process
  coordinator_stopped,  // SIGSTOP of it, and SIGCONT
  coordinator_host_dies,
  // SIGKILL of a cpprund, or a reboot of its machine; another process resumes its jobs
  coordinator_restarted,
  drained_reset,  // the link of a node is reset right after its Drained
  // an unidentified client that sends lies and knows no job, or not its terms
  unidentified,
  liar,        // the same, from a seat in a job of its own
  order_stop,  // an operator's command about the job of that node, or about the node
  order_restart,
  order_save,
  order_drain,
  order_exclude,
  order_include,
  order_forget,
  // no fault: agents watch for hangs, and some answer late or never when asked for evidence
  hang_watch,
  order_capture,       // an operator asks what the workers do
  job_freezes,         // no worker of that node's job shows progress for a while; they run on
  reconfigure,         // no fault: workers that can change rounds survive failures of others
  restart_rules,       // no fault: every job has budgets, breakers and limits of its own
  restart_scope,       // no fault: workers that fail are restarted alone
  local_stores,        // no fault: stores are local to each node, and workers use them
  standby,             // no fault: a node resumes the job when the coordinator's node is lost
  replica_controller,  // no fault: there are several cpprunds with a leader, and an etcd
  daemon_cut,          // one of them is cut off from nodes, the others or etcd for a while
  daemon_skew,         // its clocks run fast or slow
  hand_over,           // an operator asks for a transfer, or the leader exits in an orderly way
  // a member is stopped, cut off or crashes; or an election, a full etcd, a slow one
  etcd_trouble,
  secure_wire,    // no fault: every link passes through the real codec and TLS, in pieces
  all_suspended,  // every machine for the same time, as by a scheduler; packets wait as well
  bytes_damaged,  // bytes of a link are changed, removed or exchanged by an attacker
};

struct Fault {
  FaultKind kind{};
  Duration at{};
  Duration lasts{};        // of partitions, stops and the like
  std::vector<int> nodes;  // the victims; none for the coordinator
  int local_rank = 0;
  int value = 0;  // the code, count or end, depending on the kind: see World
  friend bool operator==(const Fault&, const Fault&) = default;
};

using FaultKinds = std::set<FaultKind>;

// "partition 12.3 s for 4 s, nodes 1 2".
std::string to_text(const Fault& fault);
std::string_view name_of(FaultKind kind);
// "all", "none", names of kinds and of groups (workers, agents, network, clocks, coordinator),
// separated by commas. The later groups moments, strangers, orders and policies are not in "all",
// so that older seeds keep their meaning; they are in "everything". The groups records, stores,
// standby, reconfigure, wire, suspension and upgrades are in neither and have to be named.
Result<FaultKinds> parse_kinds(std::string_view text);
// For --help.
std::string kinds_text();

}  // namespace cpprun::sim
