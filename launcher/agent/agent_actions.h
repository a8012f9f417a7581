// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's events and actions: all that passes between it and its driver.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/agent/agent_messages.h"
#include "launcher/agent/misconfiguration.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/supervisor.h"
#include "proto/bounds.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

namespace agent {

// --- events --------------------------------------------------------------------------------------

// The link is up and both sides have greeted. `local_address` is where it leaves this machine.
struct LinkUp {
  std::string local_address;
  // What the master's host stands for, where this node hosts the coordinator.
  std::vector<std::string> master_addresses = {};
  // As NodeFacts has it, where it may be another than at first.
  std::optional<int> local_store_port = {};
  friend bool operator==(const LinkUp&, const LinkUp&) = default;
};

// The link could not be made, or it broke; why, as a clause. On the node that hosts the
// coordinator: its own name cannot be resolved.
struct LinkDown {
  std::string reason;
  std::vector<std::string> tried = {};  // where it was tried, if it could not be made
  bool refused = false;                 // the machine is there, and nothing listens
  friend bool operator==(const LinkDown&, const LinkDown&) = default;
};

// The answer to AskWhoHosts; none comes where nobody answers.
struct Answered {
  link::Hosts hosts;
  friend bool operator==(const Answered&, const Answered&) = default;
};

struct Heard {
  link::Message message;
  friend bool operator==(const Heard&, const Heard&) = default;
};

struct FromWorker {
  supervisor::ProcessEvent event;
  friend bool operator==(const FromWorker&, const FromWorker&) = default;
};

// The answer to Examine.
struct Examined {
  Evidence evidence;
  friend bool operator==(const Examined&, const Examined&) = default;
};

// The answer to LookAtWorld.
struct WorldSeen {
  WorldLook look;
  friend bool operator==(const WorldSeen&, const WorldSeen&) = default;
};

// The answer to LookAtWorkers.
struct WorkersSeen {
  std::vector<WorkerSight> sights;
  friend bool operator==(const WorkersSeen&, const WorkersSeen&) = default;
};

// One of the signals to handle arrived.
struct Signalled {
  int signal = 0;
  std::string by = {};  // who ends the job by it, a clause; empty: not known
  friend bool operator==(const Signalled&, const Signalled&) = default;
};

// This node will be taken away soon: `what` says so, "file /run/preempt".
struct Noticed {
  std::string what;
  friend bool operator==(const Noticed&, const Noticed&) = default;
};

// The answer to StandBy: the others meet us there.
struct StandsBy {
  RoundNumber round{};
  int port = 0;
  friend bool operator==(const StandsBy&, const StandsBy&) = default;
};

// The coordinator in this process had enough votes: it leads the job from now on. Again: it had
// lost that, and resumes where it was.
struct Leads {
  bool again = false;
  friend bool operator==(const Leads&, const Leads&) = default;
};

// The watchdog has ended this node's workers: this process did not do it in time. Told before their
// ends are.
struct Fenced {
  friend bool operator==(const Fenced&, const Fenced&) = default;
};

// Until when the coordinator in this process may decide; nothing: without an end.
struct LeadsUntil {
  std::optional<TimePoint> until;
  friend bool operator==(const LeadsUntil&, const LeadsUntil&) = default;
};

// --- actions -------------------------------------------------------------------------------------

// Make the link to whoever is there, in place of the one there is. Answer with LinkUp or LinkDown.
struct Dial {
  Endpoint at;
  Duration step = bounds::dial_attempt_max;  // what each step of the attempt may take
  friend bool operator==(const Dial&, const Dial&) = default;
};

// Whoever is at the other end of the link has this node in its seat, or may give it one: from now
// on it is told what workers say to their store.
struct SpeakForWorkers {
  friend bool operator==(const SpeakForWorkers&, const SpeakForWorkers&) = default;
};

struct Say {
  link::Message message;
  friend bool operator==(const Say&, const Say&) = default;
};

struct HangUp {
  std::string reason;
  // The link is taken for dead: what is on its way was not heard, and whoever is there after all is
  // to know that. A link that is closed has done its part.
  bool breaks = false;
  friend bool operator==(const HangUp&, const HangUp&) = default;
};

// Ask at each of these addresses, on links of their own, who hosts there.
struct AskWhoHosts {
  std::vector<std::string> addresses;
  int port = 0;
  link::WhoHosts question;
  friend bool operator==(const AskWhoHosts&, const AskWhoHosts&) = default;
};

// This node goes on with the job if its coordinator is lost, with that record of it
// (rendezvous/job/job_record_json.h): be there for whoever may come. Answer with StandsBy, if that
// works.
struct StandBy {
  RoundNumber round{};
  std::string record;
  friend bool operator==(const StandBy&, const StandBy&) = default;
};

// It may be lost: this is our vote. Or it is not: no vote. Answer with Leads when there are enough.
struct Stand {
  link::Join own;
  friend bool operator==(const Stand&, const Stand&) = default;
};

// The coordinator leaves, and has transferred leadership to the standby in this process.
// Answer with Leads.
struct TakeOver {
  link::Join own;
  friend bool operator==(const TakeOver&, const TakeOver&) = default;
};

// The coordinator in this process leads no more: from now on, links lead elsewhere.
struct StepDown {
  friend bool operator==(const StepDown&, const StepDown&) = default;
};

// A new attempt begins: make room for its logs before anything of it is spawned.
struct Prepare {
  std::vector<WorkerSpec> specs;
  friend bool operator==(const Prepare&, const Prepare&) = default;
};

struct Work {
  supervisor::ProcessAction action;
  friend bool operator==(const Work&, const Work&) = default;
};

// Collect what is known of this end: error file, last lines. Answer with Examined.
struct Examine {
  Outcome outcome;
  std::string stray_interface = {};  // what is doubted of this node's network; see there
  friend bool operator==(const Examine&, const Examine&) = default;
};

// Look whether the workers use the store, and what the first one does instead. Answer with
// WorldSeen.
struct LookAtWorld {
  friend bool operator==(const LookAtWorld&, const LookAtWorld&) = default;
};

// Look what these workers do, because somebody looks at the job. Answer with WorkersSeen.
struct LookAtWorkers {
  std::vector<WorkerView> workers;
  friend bool operator==(const LookAtWorkers&, const LookAtWorkers&) = default;
};

// For people.
struct TellStarted {
  link::Sealed sealed;
  SocketInterfaces sockets;
  friend bool operator==(const TellStarted&, const TellStarted&) = default;
};
struct TellWaiting {
  std::string reason;
  friend bool operator==(const TellWaiting&, const TellWaiting&) = default;
};
struct TellDraining {
  supervisor::Draining draining;
  friend bool operator==(const TellDraining&, const TellDraining&) = default;
};
struct TellKilling {
  supervisor::Killing killing;
  friend bool operator==(const TellKilling&, const TellKilling&) = default;
};
struct TellFailed {
  supervisor::Failed failed;
  friend bool operator==(const TellFailed&, const TellFailed&) = default;
};
// A bad end, with the one verdict on it: for the event log now, and for the report at the end.
struct TellDiagnosed {
  DiagnosedEnd end;
  link::Failure failure;
  friend bool operator==(const TellDiagnosed&, const TellDiagnosed&) = default;
};
struct TellNote {
  std::string sentence;
  friend bool operator==(const TellNote&, const TellNote&) = default;
};
// More than half of what the lease leaves for delays was used up before an answer came.
struct TellNearMiss {
  Duration silence{};
  Duration lease{};
  Duration patience{};  // after it
  friend bool operator==(const TellNearMiss&, const TellNearMiss&) = default;
};
// Another cpprund of the cluster leads the job, or another node of it.
struct TellTurned {
  Endpoint from;
  Endpoint to;
  std::uint64_t epoch = 0;  // 0: a node
  // For so long nothing was answered to a node that has its seat still; zero: it had none.
  Duration silence{};
  bool keeps_workers = false;  // they run on: its round does, by the word of the new leader
  friend bool operator==(const TellTurned&, const TellTurned&) = default;
};
// For whoever wants to know everything.
struct TellDetail {
  std::string sentence;
  friend bool operator==(const TellDetail&, const TellDetail&) = default;
};
struct TellWarning {
  std::string sentence;
  friend bool operator==(const TellWarning&, const TellWarning&) = default;
};

// The last action. With a code other than 0 the reason, the root and what was diagnosed since the
// last Prepare make the report.
struct Exit {
  int code = 0;
  std::string reason;
  std::optional<link::Failure> root = {};
  // What followed from the root in the whole job: some of them, and how many there were.
  std::vector<link::Consequence> consequences = {};
  int consequence_count = 0;
  std::optional<TimeUse> time = {};  // what the time of all nodes went into
  GroupRank group_rank = {};
  bool had_workers = false;  // false: it ended before any worker was started
  friend bool operator==(const Exit&, const Exit&) = default;
};

using Event = std::variant<LinkUp, LinkDown, Heard, Answered, FromWorker, Examined, WorldSeen,
                           WorkersSeen, Signalled, Noticed, StandsBy, Leads, LeadsUntil, Fenced>;
using Action =
    std::variant<Dial, SpeakForWorkers, Say, HangUp, AskWhoHosts, StandBy, Stand, TakeOver,
                 StepDown, Prepare, Work, Examine, LookAtWorld, LookAtWorkers, TellStarted,
                 TellWaiting, TellDraining, TellKilling, TellFailed, TellDiagnosed, TellNote,
                 TellDetail, TellWarning, TellNearMiss, TellTurned, Exit>;

}  // namespace agent

}  // namespace cpprun
