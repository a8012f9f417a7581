// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The messages between an agent and the coordinator. The coordinator decides and agents follow;
// there is no shared state and no polling. Every message is one struct; `codec` turns it into one
// length-prefixed JSON frame (docs/protocol.md §3). The size of a message does not depend on the
// world size, since the list of members is never sent. The limits of a frame, and its short forms,
// are at the end.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "proto/time_use.h"

namespace cpprun {

enum class WorkerState {
  starting,   // requested
  running,    // its program is running
  ending,     // was sent a signal to exit
  succeeded,  // exited with 0
  failed,     // ended in any other way, or never started
};
// "running".
std::string_view to_text(WorkerState state);

}  // namespace cpprun

namespace cpprun::link {

// How a process ended, exactly as waitid(2) reports it.
struct ExitStatus {
  bool signalled = false;
  int value = 0;  // exit code, or signal number if `signalled`
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// As a shell reports it: the exit code, or 128 + signal (design decision 11).
inline int exit_code_of(const ExitStatus& status) {
  return status.signalled ? 128 + status.value : status.value;
}

// One worker's failure as its own node saw it.
struct Failure {
  Rank rank{};
  LocalRank local_rank{};
  GroupRank group_rank{};
  std::string host;     // the machine it ran on
  int pid = 0;          // 0 if it never started
  ExitStatus status;    // exit codes 127/126: could not be started
  WallTime time{};      // when its node noticed
  std::string message;  // from the error file, the last line of stderr, or the stage
  // The likely reason by the evidence on that node, as a short id ("out_of_memory"); empty:
  // unknown. launcher/failure/causes.cpp has all ids.
  std::string cause = {};
  // The evidence shows a consequence of another failure: a lost connection, or a signal from
  // cpprun. Then it is not the root cause, even if it was reported first.
  bool consequence = false;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// The cause that the coordinator sets for a lost node; not that of a worker.
inline constexpr std::string_view node_lost = "node_lost";

// An agent's monotonic clock, from an origin of its own. Wall clocks may jump and are for display.
using AgentTime = std::chrono::microseconds;

// Upper bound of steps, samples and kibibytes; consumers compute with doubles.
inline constexpr std::int64_t figure_max = 1LL << 53;

// One of a training's own numbers, such as its loss. Empty if it is not finite.
struct Metric {
  std::string name;  // see is_metric_name() in proto/worker_contract.h
  std::optional<double> value = {};
  friend bool operator==(const Metric&, const Metric&) = default;
};

// A GPU as its driver sees it, with the work of all its processes.
struct GpuUse {
  int index = 0;     // the driver's number
  int percent = -1;  // of the last second in which it computed; -1: unknown
  std::int64_t used_mib = 0;
  std::int64_t total_mib = 0;
  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

inline constexpr std::size_t last_line_bytes_max = 120;

// The state of one worker as its node sees it, for display only. Ages instead of times, since
// clocks of different machines differ.
struct WorkerStats {
  LocalRank local_rank{};
  int pid = 0;  // 0: never started
  WorkerState state = WorkerState::starting;
  Duration since{};  // time in that state
  // From its heartbeats; empty if there is none or it does not report the value.
  std::optional<std::int64_t> step = {};
  std::optional<std::int64_t> millisteps_per_second = {};
  std::optional<std::int64_t> samples = {};
  std::optional<std::int64_t> checkpoint_step = {};
  std::optional<Duration> last_beat = {};  // time since the last heartbeat
  std::optional<std::int64_t> total = {};  // how many steps the training has in all
  std::vector<Metric> metrics = {};        // at most CPPRUN_HEARTBEAT_METRICS
  // From the kernel, for the process itself without its children.
  std::optional<std::int64_t> resident_kib = {};
  std::optional<std::int64_t> cpu_percent = {};  // of one CPU, since the last sample
  std::optional<Duration> last_words = {};       // time since its last line of output
  std::string last_line = {};                    // that line; at most last_line_bytes_max
  std::optional<GpuUse> gpu = {};                // the GPU it uses
  friend bool operator==(const WorkerStats&, const WorkerStats&) = default;
};

// Only the numbers of which every worker has one, as whole numbers: ages in milliseconds, -1 for an
// empty value. Clamped to the range that a receiver accepts.
using FiguresRow = std::array<std::int64_t, 12>;
FiguresRow row_of(const WorkerStats& figures);
// Checks every number; the error names the first invalid one.
Result<WorkerStats> figures_of(const FiguresRow& row);
std::string_view name_of_column(std::size_t index);

// A failure caused by the root failure, in short.
struct Consequence {
  Rank rank{};
  GroupRank group_rank{};
  ExitStatus status;
  friend bool operator==(const Consequence&, const Consequence&) = default;
};

// --- agent → coordinator -----------------------------------------------------------------------

// Requests a seat in the job. The first message on a link, sent once.
struct Join {
  std::string job;                    // rdzv id; the coordinator rejects a different one
  std::string host;                   // this machine's name, for display and for the default order
  int pid = 0;                        // the agent's
  std::uint32_t agent = 0;            // random, since two containers may share name and pid
  std::optional<int> node_rank = {};  // if set, only that seat is acceptable
  int nodes_min = 1;
  int nodes_max = 1;
  int local_world_size = 1;  // workers on this node
  std::string role = "default";
  RestartRules restarts = {};  // has to be the same on every node
  // Additional numeric addresses of this machine: its workers may reach the store from a different
  // one than the agent (IPv6 and IPv4). At most bounds::node_addresses_max.
  std::vector<std::string> addresses = {};
  // This job's timeouts. A daemon uses those of the first node; 0: the daemon's default. These four
  // (with the ones in RestartRules) travel in whole milliseconds.
  Duration lease{};
  Duration last_call{};
  RoundNumber after{};  // the last round this agent took part in; 0: none
  bool idle = false;    // no process of that round is alive on this node
  bool done = false;    // because every worker of this node exited with 0 in it
  AgentTime sent{};     // see Heartbeat
  // The workers use a store of their own agent, which forwards through its link (--store=local).
  // Has to be the same on every node.
  bool store_is_local = false;
  // This agent can take over the job if its coordinator is lost (--standby).
  bool can_lead = false;
  // A vote for the receiving standby: this node's lease in that round has ended. From now on the
  // agent follows no other coordinator until it receives NotLeading. 0: no vote.
  RoundNumber vote{};
  // This agent turns to another cpprund if the leader is lost (Members), and `epoch` is the newest
  // it has followed: a cpprund of an earlier epoch has lost leadership. 0: none so far.
  bool turns = false;
  std::uint64_t epoch = 0;
  // This agent never had a seat in any round. If the coordinator lists one, the agent was not
  // informed of it.
  bool fresh = false;
  // This agent answers Capture and Verdict.
  bool captures = false;
  // This agent answers Upgrade.
  bool upgrades = false;
  friend bool operator==(const Join&, const Join&) = default;
};

// Asks which master is behind an address. A master whose own address leads elsewhere sends it there
// instead of joining. A node that is about to join also introduces itself with it at the further
// addresses of its master: the source address of each such link is then known to be the node's.
struct WhoHosts {
  std::string job;
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;
  bool joins = false;  // from a node that joins over another link, not from a master
  // Where the sender leads that job since its master was lost; port 0: it does not. A restarted
  // master redirects its nodes and itself there.
  std::string leads_address = {};
  int leads_port = 0;
  friend bool operator==(const WhoHosts&, const WhoHosts&) = default;
};

// A worker of this node failed. Sent at once, while the other workers are still being stopped.
struct Failed {
  RoundNumber round{};
  Failure failure;
  AgentTime noticed{};  // the coordinator orders the failures of all nodes by it
  // The node had already been told to drain: the root failure was earlier, whatever the clocks say.
  bool late = false;
  // How many times this worker was restarted alone in that round (RestartWorker).
  int attempt = 0;
  friend bool operator==(const Failed&, const Failed&) = default;
};

// Every worker of this node exited with 0; the node votes no longer in that round.
struct Succeeded {
  RoundNumber round{};
  friend bool operator==(const Succeeded&, const Succeeded&) = default;
};

// Progress of a round.
struct Reached {
  std::uint64_t step = 0;
  std::uint64_t checkpoint_step = 0;
  friend bool operator==(const Reached&, const Reached&) = default;
};

// All processes of that round on this node have ended, or have left it and wait for the next one.
struct Drained {
  RoundNumber round{};
  // Unsaved work: for the worker here with the oldest checkpoint, the time since that checkpoint,
  // according to heartbeats; 0: unknown. Travels in milliseconds.
  Duration unsaved{};
  // The farthest progress of a worker here, from its heartbeats; zeros: unknown.
  Reached reached = {};
  // Sent because the coordinator asked for it: this node votes no longer in that round.
  bool asked = false;
  friend bool operator==(const Drained&, const Drained&) = default;
};

// This node was asked to stop (a signal), or gives up after join_timeout (signal 0). The job ends
// or continues without it (docs/states.md).
struct Leave {
  int signal = 0;
  std::string reason;
  AgentTime asked{};  // when, by the agent's clock; zero: not asked, or unknown
  friend bool operator==(const Leave&, const Leave&) = default;
};

// Renews the coordinator's lease on this node. The reply carries the same `sent`: a heartbeat with
// a reply has arrived, so the agent's own lease counts from `sent`. From `sent` and the round trip
// the coordinator computes this node's clock offset.
struct Heartbeat {
  AgentTime sent{};
  Duration round_trip{};  // of the previous heartbeat; 0: unknown. Travels in microseconds
  // In a reply: a client is watching this job. Report the workers' state now, and for this long
  // after every change. 0: no client. Travels in milliseconds.
  Duration watch{};
  // In a reply, if there is a standby: the coordinator's clock. The next heartbeat echoes it, which
  // shows the coordinator until when this node follows no other one.
  AgentTime moment{};
  // From an agent: its node will be preempted soon, with the source ("file /run/preempt"). All
  // ranks save.
  std::string notice = {};
  // From an agent with --hang-timeout: how long none of its workers has made any progress, and
  // that timeout. 0: a worker does, or the job is not checked. Both travel in milliseconds.
  Duration quiet{};
  Duration hang_timeout{};
  // From an agent: since its last heartbeat, a worker's output has shown that a process group of
  // PyTorch timed out. All nodes capture what their workers do.
  bool timed_out = false;
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// State of this node's workers, sent only on the coordinator's request. Workers that are not listed
// are unchanged. A frame of at most status_frame_bytes_max (brief()).
struct Status {
  RoundNumber round{};
  std::vector<WorkerStats> workers = {};  // ordered by local rank, no duplicates
  friend bool operator==(const Status&, const Status&) = default;
};

// The reply to Capture: what the workers of this node do, as JSON of a hang::Evidence
// (rendezvous/hang/evidence_json.h) in parts, in order.
struct Captured {
  RoundNumber round{};
  std::uint64_t number = 0;  // that of the Capture
  int part = 0;              // from 0
  int parts = 1;             // in all
  std::string bytes;
  Duration quiet{};  // as in Heartbeat, when it was gathered. Travels in milliseconds
  friend bool operator==(const Captured&, const Captured&) = default;
};

// This standby can be reached at that port, from that round on.
struct Stands {
  RoundNumber round{};
  int port = 0;
  friend bool operator==(const Stands&, const Stands&) = default;
};

// The reply to Upgrade, from the program that runs in the agent's process by then: the new one, or
// the old one with the reason why it goes on.
struct Upgraded {
  std::uint64_t number = 0;  // that of the Upgrade
  std::string version;       // of that program
  std::string error = {};    // empty: it is the new one
  Duration took{};           // in which no program ran. Travels in microseconds
  friend bool operator==(const Upgraded&, const Upgraded&) = default;
};

// --- coordinator → agent -----------------------------------------------------------------------

// Nodes are missing; `reason` names them and is sent from time to time. Or the job is complete and
// this node is a spare: it replaces the first node that is lost, and waits indefinitely.
struct Waiting {
  std::string reason;
  bool spare = false;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// The reply to WhoHosts. The link is closed after it.
struct Hosts {
  std::string job;      // empty: a daemon
  std::string host;     // the master's
  int pid = 0;          // the master's
  bool itself = false;  // the sender has reached itself
  friend bool operator==(const Hosts&, const Hosts&) = default;
};

// Rejects this agent, with the reason. The link is closed after it.
struct Refused {
  std::string reason;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// The round is agreed. Has everything that an agent needs to start its workers.
struct Sealed {
  RoundNumber round{};
  int restart_count = 0;     // TORCHELASTIC_RESTART_COUNT, the same on every node
  GroupRank group_rank{};    // of this node
  int group_world_size = 1;  // number of nodes
  Rank base_rank{};          // of this node's local rank 0
  int world_size = 1;        // number of workers
  int role_base_rank = 0;
  int role_world_size = 1;
  // On the host where the agent reached the coordinator; unused if stores are local.
  int store_port = 0;
  // Addresses of one other node, the master's unless that is this node. They determine which of
  // this machine's interfaces lead to the other nodes. At most bounds::node_addresses_max.
  std::vector<std::string> neighbour = {};
  // The root failure of the previous round. A node that lost its seat in it, or whose coordinator
  // was lost, has no other message with the verdict.
  std::optional<Failure> failed_before = {};
  // This coordinator sends RestartWorker: the confirmation of RestartScope::worker. An earlier
  // version restarts the job instead.
  bool restarts_workers = false;
  // The coordinator requests a capture when a node has reported a timeout of PyTorch.
  bool captures_timeouts = false;
  friend bool operator==(const Sealed&, const Sealed&) = default;
};

// Stop all workers of that round, or those that cannot change rounds, and send Drained. `reason`
// completes "stopping the workers: …".
struct Drain {
  RoundNumber round{};
  std::string reason;
  // This node may still vote for the standby. Once all nodes have drained, another Drain without
  // this flag asks for a Drained with `asked`.
  bool keeps_vote = false;
  // No round follows, so a node that loses its coordinator now does not wait for another.
  bool ends_job = false;
  // Workers that can change rounds leave this round and wait for the next one. Only the others are
  // stopped.
  bool keeps_workers = false;
  friend bool operator==(const Drain&, const Drain&) = default;
};

// The reply to a Failed with RestartScope::worker, if the restart policy allows a restart: start
// that worker again after `pause`, with the same ranks and in the same round. The others run on.
struct RestartWorker {
  RoundNumber round{};
  Rank rank{};
  int attempt = 1;        // counts the restarts of this worker in this round
  int restart_count = 0;  // TORCHELASTIC_RESTART_COUNT: restarts of the whole job so far
  Duration pause{};       // travels in milliseconds
  std::string reason;     // a clause: "restart 2 of 5"
  friend bool operator==(const RestartWorker&, const RestartWorker&) = default;
};

// Send that signal to every worker of that round at that time of the agent's clock, which is the
// same moment on every node; zero: now. A node that is not in that round, or is draining, ignores
// it.
struct Save {
  RoundNumber round{};
  int signal = 0;
  AgentTime at{};
  friend bool operator==(const Save&, const Save&) = default;
};

// Report what the workers of that round do: their stacks, and their last collective operations.
// They run on. Sent only to agents with `captures`; the reply is Captured.
struct Capture {
  RoundNumber round{};
  std::uint64_t number = 0;  // grows with each capture of a job
  bool native = false;       // frames of C and C++ as well
  // A process group timed out, and workers may end for it at any moment. They are judged, and the
  // others ended, after the reply.
  bool is_timeout = false;
  friend bool operator==(const Capture&, const Capture&) = default;
};

// The job hangs: no rank has made any progress for `quiet`. The node of the rank to blame ends
// that worker as hung, and the round fails; the others report the verdict. Or a process group of
// PyTorch timed out (`is_timeout`): all nodes only report the verdict, because the script ends
// itself, or handles the error. Sent only to agents with `captures`.
struct Verdict {
  RoundNumber round{};
  std::uint64_t number = 0;           // of the capture that it is based on
  Rank rank{};                        // to blame
  Duration quiet{};                   // travels in milliseconds
  std::string kind;                   // hang::name_of(hang::Verdict::Kind)
  std::string sentence;               // hang::Verdict::sentence
  std::vector<std::string> clusters;  // hang::text_of(hang::Cluster), the smallest cluster first
  bool is_timeout = false;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Execute the program that the agent's path names now, in the agent's process, and keep the
// workers. Sent only to agents with `upgrades`; the reply is Upgraded.
struct Upgrade {
  std::uint64_t number = 0;  // grows with each one of a coordinator's machine
  friend bool operator==(const Upgrade&, const Upgrade&) = default;
};

// An operator removed this node from the job, which continues without it. No process of a round is
// alive here. The agent exits with 0. `reason` names the operator and the reason.
struct Dismissed {
  std::string reason;
  friend bool operator==(const Dismissed&, const Dismissed&) = default;
};

// The coordinator's state of the job, for the node that takes over if the coordinator is lost: the
// bytes of a JobRecord (rendezvous/job/job_record_json.h) in parts, in order. It belongs to the
// current round.
struct Record {
  RoundNumber round{};
  int part = 0;   // from 0
  int parts = 1;  // in all
  std::string bytes;
  friend bool operator==(const Record&, const Record&) = default;
};

// The standby's address for that round.
struct Standby {
  RoundNumber round{};
  std::string address;  // numeric
  int port = 0;
  friend bool operator==(const Standby&, const Standby&) = default;
};

// The standby's reply to a Join while the coordinator is not lost: the node has to use that one. A
// vote in the Join is not counted, now or later. The link is closed after it. A standby cpprund
// adds the leader's address, if it knows it.
struct NotLeading {
  std::string reason;
  std::string address = {};
  int port = 0;
  friend bool operator==(const NotLeading&, const NotLeading&) = default;
};

// The members of the cluster; the sender leads it in that epoch. If it is lost, another member
// leads and has this node's seat. The agent tries the members in turn, and the node's workers
// survive its lease by `takeover_window` meanwhile. Sent to agents that have set `turns`.
struct Members {
  std::uint64_t epoch = 0;
  std::vector<std::string> places = {};  // "10.0.0.1:29400", the sender's first
  Duration takeover_window{};            // travels in milliseconds
  bool keeps_round = false;              // this node's round continues, and its store exists
  friend bool operator==(const Members&, const Members&) = default;
};

// This job has been led at that address since its master was lost: join there.
struct Led {
  std::string address;  // numeric
  int port = 0;
  friend bool operator==(const Led&, const Led&) = default;
};

// --- between cppruns ---------------------------------------------------------------------------

// Asks to become a standby of the receiver. The first message on a link. Replication uses its own
// frames (binary_frame.h).
struct Follow {
  std::string name;
  std::string cluster;       // id of the cluster, if known
  std::string version;       // of cpprun, for display
  int features = 0;          // bits of standby_features
  std::uint64_t epoch = 0;   // the highest it has seen
  std::string address = {};  // its address for agents: "10.0.0.2:29400"
  bool has_etcd = false;     // true; an earlier build can be a standby without etcd
  friend bool operator==(const Follow&, const Follow&) = default;
};

// The reply to Follow. Everything that the standby needs to take over follows.
struct Leads {
  std::string name;
  std::string cluster;
  std::string version;
  int features = 0;
  std::uint64_t epoch = 0;
  bool has_etcd = false;
  friend bool operator==(const Leads&, const Leads&) = default;
};

// Features of the replication protocol; what either side lacks is not used.
inline constexpr int standby_features = 1;  // 1: records, logs of stores, acknowledgements

// The leader is about to stop and has sent everything: lead now.
struct TakeOver {
  std::uint64_t epoch = 0;  // in which the sender led
  friend bool operator==(const TakeOver&, const TakeOver&) = default;
};

// The job is over. `exit_code` is what every agent returns; `root` is the first failure.
struct Finish {
  int exit_code = 0;
  std::string reason;
  std::optional<Failure> root = {};
  // Other failures of that round, ordered by time. May be fewer than `consequence_count`.
  std::vector<Consequence> consequences = {};
  int consequence_count = 0;
  // How the time of all nodes was spent, with the largest losses, as far as they fit.
  std::optional<TimeUse> time = {};
  int restarts = 0;  // used in all; sent with RestartScope::worker
  friend bool operator==(const Finish&, const Finish&) = default;
};

using Message =
    std::variant<Join, Failed, Succeeded, Drained, Leave, Heartbeat, Waiting, Refused, Sealed,
                 Drain, Finish, WhoHosts, Hosts, Save, Dismissed, Status, Record, Stands, Standby,
                 NotLeading, Led, Members, Follow, Leads, TakeOver, Captured, Capture, Verdict,
                 RestartWorker, Upgraded, Upgrade>;

// Limits of a frame. Any client that reaches the port can send frames, so a number that no cpprun
// sends, or a text longer than any that it sends, ends the link. What has passed can be computed
// with, printed and stored. Numbers that a user may have typed (the terms of a job) pass, and the
// host of the job rejects them with a message (rendezvous/job/job_terms.h).

// The longest watch: the longest interval of a heartbeat and its reply.
inline constexpr auto watch_time_max = std::chrono::hours(1);

// "status=256 is out of range"; empty if all values are within limits.
std::optional<std::string> beyond_limits(const Message& message);

// Messages to every agent have to stay small at any world size: Sealed and Finish go to ten
// thousand nodes at once. The coordinator's own agent gets the full message, as a call.

// A Status while a client watches: eight workers fit. On a node with more they take turns.
inline constexpr std::size_t status_frame_bytes_max = 2048;

// A Verdict has at most this many clusters, each a line of at most this many bytes.
inline constexpr std::size_t verdict_clusters_max = 8;
inline constexpr std::size_t verdict_line_bytes_max = 160;
// The hang::Evidence of one node.
inline constexpr std::size_t evidence_bytes_max = 256 * 1024;

// Shortens a Finish to a frame of at most bounds::round_frame_bytes_max: cuts sentences and drops
// consequences that do not fit. Their count is kept.
Finish brief(Finish finish);

// Shortens a Sealed to a frame of at most bounds::round_frame_bytes_max: cuts the message of the
// previous failure, or drops that failure.
Sealed brief(Sealed sealed);

// The first of these workers, as many as fit a frame of status_frame_bytes_max; at least one.
Status brief(Status status);

}  // namespace cpprun::link
