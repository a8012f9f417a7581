// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an agent and the coordinator say to each other over their link. The coordinator decides,
// agents are told: nobody shares a blob, nobody polls. Every message is one struct; `codec` turns
// it into one length-prefixed JSON frame (docs/protocol.md §3). A message is O(1) bytes whatever
// the world's size, because nobody is ever sent the list of members. The limits
// of what a frame may say, and its short forms, are at the end.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/figures.h"
#include "proto/restart_rules.h"
#include "proto/time_use.h"

namespace cpprun::link {

// How a process came to its end. Exactly as waitid(2) tells it.
struct ExitStatus {
  bool signalled = false;
  int value = 0;  // exit code, or the signal's number when signalled
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// The code a shell would show: the worker's own, or 128 + signal (design decision 11).
inline int exit_code_of(const ExitStatus& status) {
  return status.signalled ? 128 + status.value : status.value;
}

// One worker's bad end, as its own node saw it.
struct Failure {
  Rank rank{};
  LocalRank local_rank{};
  GroupRank group_rank{};
  std::string host;     // name of the machine it ran on
  int pid = 0;          // 0 when it never started
  ExitStatus status;    // exit code 127/126 stand for "could not be started"
  WallTime time{};      // when its node noticed
  std::string message;  // a sentence: from the error file, the last line of stderr, or the stage
  // What the evidence on that node says of the reason, as a short id ("out_of_memory"); empty where
  // it says nothing. launcher/failure/causes.cpp has them all.
  std::string cause = {};
  // The evidence is known to follow from somebody else's end: a lost connection, a signal we sent.
  // Then the reason is to be looked for elsewhere, even if this was heard of first.
  bool consequence = false;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// The cause that the coordinator gives, for a node and not for a worker of it.
inline constexpr std::string_view node_lost = "node_lost";

// By an agent's monotonic clock, since a moment of its own. Wall clocks may jump and are for
// people.
using AgentTime = std::chrono::microseconds;

// A failure that followed from the root, as far as it fits a line.
struct Consequence {
  Rank rank{};
  GroupRank group_rank{};
  ExitStatus status;
  friend bool operator==(const Consequence&, const Consequence&) = default;
};

// --- agent → coordinator -----------------------------------------------------------------------

// "I would take a seat in this job." The first message on a link, said there once.
struct Join {
  std::string job;                    // rdzv id; the coordinator refuses another's
  std::string host;                   // this machine's name, for people and for the natural order
  int pid = 0;                        // the agent's
  std::uint32_t agent = 0;            // random: two containers may have one name and one pid
  std::optional<int> node_rank = {};  // where given, that seat and no other
  int nodes_min = 1;
  int nodes_max = 1;
  int local_world_size = 1;  // workers on this node
  std::string role = "default";
  RestartRules restarts = {};  // every node has to say the same
  // Further numeric addresses of this machine, for its workers may reach the store from another one
  // than the agent's (IPv6 beside IPv4). Few: bounds::node_addresses_max.
  std::vector<std::string> addresses = {};
  // How patient this job is; a daemon takes the first node's word for it, 0 means its own. These
  // four travel in milliseconds; a finer part is left out.
  Duration lease{};
  Duration last_call{};
  RoundNumber after{};  // the last round this agent took part in, 0 for a newcomer
  bool idle = false;    // nobody of that round is alive there any more
  bool done = false;    // because every worker of this node ended with 0 in it
  AgentTime sent{};     // see Heartbeat
  // The workers of this job speak to a store of their own agent's, which forwards it through its
  // link (--store=local). Every node has to say the same.
  bool store_is_local = false;
  // This agent can go on with the job where its coordinator is lost (--standby).
  bool can_lead = false;
  // Its lease in that round has ended, and it is the vote of a node of that round for the standby
  // it is said to: from here on this agent follows nobody else until it hears NotLeading. 0: none.
  RoundNumber vote{};
  // This agent turns to another cpprund where the one that leads is lost (Members), and has
  // followed one of that epoch: one of an earlier epoch leads no more. 0: it has followed none that
  // has any.
  bool turns = false;
  std::uint64_t epoch = 0;
  // This agent has never had a seat in any round: where it has one, it has not heard of it.
  bool fresh = false;
  friend bool operator==(const Join&, const Join&) = default;
};

// "Whose is this address?" A master whose address leads elsewhere asks there, instead of joining. A
// node that will ask for a seat introduces itself with it at the further addresses of its master:
// the one from which it does is its own.
struct WhoHosts {
  std::string job;
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;
  bool joins = false;  // a node that asks for a seat through another link, and no master
  // Where the asker leads that job since its master was lost; port 0: it does not. A master that
  // has come anew sends its nodes there, and itself.
  std::string leads_address = {};
  int leads_port = 0;
  friend bool operator==(const WhoHosts&, const WhoHosts&) = default;
};

// A worker of this node failed; sent at once, while the others still have to be ended.
struct Failed {
  RoundNumber round{};
  Failure failure;
  AgentTime noticed{};  // by which the coordinator puts the failures of all nodes in order
  // Its node had been told to drain before: whatever broke the round was earlier, whatever the
  // clocks say.
  bool late = false;
  friend bool operator==(const Failed&, const Failed&) = default;
};

// Every worker of this node exited with 0; it votes no more in that round.
struct Succeeded {
  RoundNumber round{};
  friend bool operator==(const Succeeded&, const Succeeded&) = default;
};

// How far a round has come.
struct Reached {
  std::uint64_t step = 0;
  std::uint64_t checkpoint_step = 0;
  friend bool operator==(const Reached&, const Reached&) = default;
};

// Nobody of that round is alive on this node any more.
struct Drained {
  RoundNumber round{};
  // For how long the worker here whose checkpoint is the oldest had been going since that one was
  // seen, as far as beats say so; 0: not known. Travels in milliseconds.
  Duration unsaved{};
  // The farthest any worker here has come, by its beats; zeros: not known.
  Reached reached = {};
  // The coordinator has asked for it: this node votes no more in that round.
  bool asked = false;
  friend bool operator==(const Drained&, const Drained&) = default;
};

// This node was asked to stop (a signal), or has waited for join_timeout and gives up (signal 0).
// The job ends, or goes on without it (docs/states.md).
struct Leave {
  int signal = 0;
  std::string reason;
  AgentTime asked{};  // when, by the agent's clock; zero: nobody asked, or it does not say
  friend bool operator==(const Leave&, const Leave&) = default;
};

// "I am here." The coordinator's lease on this node starts anew, and it answers with the same
// `sent`: what is answered has arrived, so the agent's own lease counts from then. From `sent` and
// the round trip the coordinator learns how this node's clock stands to its own.
struct Heartbeat {
  AgentTime sent{};
  Duration round_trip{};  // of the heartbeat before; 0: not known yet. Travels in microseconds
  // In an answer: somebody looks at this job. Say now what your workers do, and for so long at once
  // whatever changes about them. 0: nobody does. Travels in milliseconds.
  Duration watch{};
  // In an answer, where there is a standby: the coordinator's clock. The next heartbeat says it
  // again, and so the coordinator knows until when this node follows nobody else.
  AgentTime moment{};
  // From an agent: its node will be taken away soon, by this ("file /run/preempt"). All ranks save.
  std::string notice = {};
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// What workers of this node do, said only where the coordinator has asked for it. Those that are
// not named do what they did. A frame of at most status_frame_bytes_max (brief()).
struct Status {
  RoundNumber round{};
  std::vector<WorkerFigures> workers = {};  // in order of local rank, each once
  friend bool operator==(const Status&, const Status&) = default;
};

// The standby can be met there, from that round on.
struct Stands {
  RoundNumber round{};
  int port = 0;
  friend bool operator==(const Stands&, const Stands&) = default;
};

// --- coordinator → agent -----------------------------------------------------------------------

// Not everybody is here yet: `reason` says who is missing, now and then. Or everybody is, and this
// node is a spare: it takes the place of the first one that is lost, and waits without a limit.
struct Waiting {
  std::string reason;
  bool spare = false;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// The answer to WhoHosts; the link is closed after it.
struct Hosts {
  std::string job;      // empty: a daemon
  std::string host;     // where the master runs
  int pid = 0;          // the master's
  bool itself = false;  // the one who asked has reached itself
  friend bool operator==(const Hosts&, const Hosts&) = default;
};

// No seat for this agent, and why. The link is closed after it.
struct Refused {
  std::string reason;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// The round is agreed. Everything an agent needs to start its workers.
struct Sealed {
  RoundNumber round{};
  int restart_count = 0;     // TORCHELASTIC_RESTART_COUNT, equal on every node
  GroupRank group_rank{};    // this node's
  int group_world_size = 1;  // nodes
  Rank base_rank{};          // of this node's local rank 0
  int world_size = 1;        // workers in all
  int role_base_rank = 0;
  int role_world_size = 1;
  // On the host at which the agent reached the coordinator; where stores are local, nobody's.
  int store_port = 0;
  // The addresses of one other node, the master's where this is not its own: which of this
  // machine's interfaces lead to the others is told by them. Few: bounds::node_addresses_max.
  std::vector<std::string> neighbour = {};
  // What failed first in the round before this one. A node that lost its seat there, or whose
  // coordinator was lost, has not received the verdict in any other message.
  std::optional<Failure> failed_before = {};
  friend bool operator==(const Sealed&, const Sealed&) = default;
};

// End every worker of that round and say Drained. `reason` completes "ending the workers: …".
struct Drain {
  RoundNumber round{};
  std::string reason;
  // This node may still vote for the standby. When all nodes have drained, another Drain without
  // this asks for Drained with `asked`.
  bool keeps_vote = false;
  // No round follows: a node that loses its coordinator now has nothing to wait for.
  bool ends_job = false;
  friend bool operator==(const Drain&, const Drain&) = default;
};

// Send that signal to every worker of that round at that moment of the agent's own clock, which is
// the same on every node; zero: now. Whoever is no longer in that round, or ends it, does nothing.
struct Save {
  RoundNumber round{};
  int signal = 0;
  AgentTime at{};
  friend bool operator==(const Save&, const Save&) = default;
};

// An operator has asked this node to leave the job, which goes on without it; nobody of a round is
// alive here any more. The agent exits with 0. `reason` says who asked, and why.
struct Dismissed {
  std::string reason;
  friend bool operator==(const Dismissed&, const Dismissed&) = default;
};

// What the coordinator leaves of the job, to the node that goes on with it if the coordinator is
// lost: a JobRecord's bytes (rendezvous/job/job_record_json.h) in parts, in order. Its round is the
// one that runs.
struct Record {
  RoundNumber round{};
  int part = 0;   // from 0
  int parts = 1;  // in all
  std::string bytes;
  friend bool operator==(const Record&, const Record&) = default;
};

// Where the node is met that goes on with the job if the coordinator is lost, in that round.
struct Standby {
  RoundNumber round{};
  std::string address;  // numeric
  int port = 0;
  friend bool operator==(const Standby&, const Standby&) = default;
};

// The standby's answer to a join where the coordinator is not lost: that one is to be asked. A vote
// that came with it was not counted, and never will be. The link is closed after it. A cpprund that
// stands by says where the one that leads is met, where it knows that; to another cpprund, where it
// has heard that one, or has handed over to it, and in which epoch.
struct NotLeading {
  std::string reason;
  std::string address = {};
  int port = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const NotLeading&, const NotLeading&) = default;
};

// Which cppruns there are, one of which leads: this one, of that epoch. Where it is lost, another
// one leads, and has the seat of this node: it is to be looked for there, in turns, and for so long
// the node's workers live on after its lease. To agents that have said `turns`.
struct Members {
  std::uint64_t epoch = 0;
  std::vector<std::string> places = {};  // "10.0.0.1:29400", this one's first
  Duration patience{};                   // travels in milliseconds
  bool keeps_round = false;              // this node's round runs on, and its store is there
  friend bool operator==(const Members&, const Members&) = default;
};

// This job is led there since its master was lost: ask for a seat there.
struct Led {
  std::string address;  // numeric
  int port = 0;
  friend bool operator==(const Led&, const Led&) = default;
};

// --- between cppruns ---------------------------------------------------------------------------

// "Let me stand by for you." The first message on a link. What it is to keep comes in frames of its
// own (binary_frame.h).
struct Follow {
  std::string name;
  std::string cluster;       // which cppruns these are, where one knows that of the other
  std::string version;       // of cpprun, for people
  int features = 0;          // bits of standby_features
  std::uint64_t epoch = 0;   // the greatest that it has heard of
  std::string address = {};  // where agents meet it: "10.0.0.2:29400"
  bool has_etcd = false;     // which says who leads; else the lead is only ever handed over
  friend bool operator==(const Follow&, const Follow&) = default;
};

// The answer: what follows is all that it has to know to lead in that one's place.
struct Leads {
  std::string name;
  std::string cluster;
  std::string version;
  int features = 0;
  std::uint64_t epoch = 0;
  bool has_etcd = false;
  friend bool operator==(const Leads&, const Leads&) = default;
};

// What the two sides of such a link know to say; what either lacks is left out.
inline constexpr int standby_features = 1;  // 1: records, logs of stores, and how far they are kept

// The one that leads is about to stop, and has said everything: lead now.
struct TakeOver {
  std::uint64_t epoch = 0;  // in which it has led
  friend bool operator==(const TakeOver&, const TakeOver&) = default;
};

// The job is over. `exit_code` is what every agent returns; `root` is what failed first.
struct Finish {
  int exit_code = 0;
  std::string reason;
  std::optional<Failure> root = {};
  // What else failed in that round, in the order of time. Few: there may be more than are named.
  std::vector<Consequence> consequences = {};
  int consequence_count = 0;
  // What the time of all nodes went into. Of its causes those that took most, as far as they fit.
  std::optional<TimeUse> time = {};
  friend bool operator==(const Finish&, const Finish&) = default;
};

using Message =
    std::variant<Join, Failed, Succeeded, Drained, Leave, Heartbeat, Waiting, Refused, Sealed,
                 Drain, Finish, WhoHosts, Hosts, Save, Dismissed, Status, Record, Stands, Standby,
                 NotLeading, Led, Members, Follow, Leads, TakeOver>;

// What a frame may say at most. The bytes of a frame come from whoever has reached the port, so a
// number that no cpprun ever says, or a text longer than any it sends, ends the link: what has
// passed here can be counted with, printed and kept. Numbers that a person may have typed (the
// terms of a job) pass, and are refused aloud by whoever hosts the job
// (rendezvous/job/job_terms.h).

// A watch may be asked for as long as an unhurried heartbeat and its answer may take.
inline constexpr auto watch_time_max = std::chrono::hours(1);

// "status=256, which cannot be", or nothing where all of it can be.
std::optional<std::string> beyond_limits(const Message& message);

// What every agent is sent must stay small whatever the size of the world: Sealed and Finish are
// sent to ten thousand nodes at once. The agent of the master, whose link is a call, hears all of
// it.

// What a node's workers do, as it is told while somebody looks: eight of them fit. On a larger node
// they take turns.
inline constexpr std::size_t status_frame_bytes_max = 512;

// The same end in a frame of at most bounds::round_frame_bytes_max: sentences are cut, and of the
// consequences only those are named that still fit. Their count stays true.
Finish brief(Finish finish);

// The same seat in a frame of at most bounds::round_frame_bytes_max: the message of the failure
// before it is cut, or the failure is left out.
Sealed brief(Sealed sealed);

// The first of these workers, as many as fit a frame of status_frame_bytes_max. At least
// one does.
Status brief(Status status);

}  // namespace cpprun::link
