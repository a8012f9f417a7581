// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's events and actions: everything that passes between the agent and its driver.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/failure/diagnosis.h"
#include "launcher/hang/observation.h"
#include "launcher/hang/progress_monitor.h"
#include "launcher/plan/plan.h"
#include "launcher/report/events.h"
#include "launcher/workers/heartbeat_monitor.h"
#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/client/bounds.h"

namespace cpprun {

// What can be observed of one worker from outside.
struct WorkerSight {
  LocalRank local_rank;
  std::optional<HeartbeatReading> beat = {};
  std::optional<std::int64_t> resident_kib = {};
  std::optional<Duration> cpu = {};  // since the worker was started
  std::optional<Duration> last_words = {};
  std::string last_line = {};
  std::optional<link::GpuUse> gpu = {};
  friend bool operator==(const WorkerSight&, const WorkerSight&) = default;
};

// One observation of the first worker on the coordinator's host.
struct WorldProbe {
  bool store_asked = false;            // a worker of this round has contacted the store
  std::vector<std::string> listeners;  // "pid 812 listens on port 12355", worker or child
  std::vector<std::string> spawned;    // "pid 812", started by Python's multiprocessing
  Duration processor_time{};           // of the worker and its descendants
  friend bool operator==(const WorldProbe&, const WorldProbe&) = default;
};

namespace agent {

// --- events --------------------------------------------------------------------------------------

// The link is up and both sides have completed the handshake. `local_address` is our end of it.
struct LinkUp {
  std::string local_address;
  // The resolved addresses of the master's host, if this node hosts the coordinator.
  std::vector<std::string> master_addresses = {};
  // As in NodeFacts, if it has changed since.
  std::optional<int> local_store_port = {};
  friend bool operator==(const LinkUp&, const LinkUp&) = default;
};

// The link could not be made, or it broke. `reason` is a clause. On the node that hosts the
// coordinator: its own name does not resolve.
struct LinkDown {
  std::string reason;
  std::vector<std::string> tried = {};  // addresses tried, if the link could not be made
  bool refused = false;                 // the host is up, but nothing listens on the port
  friend bool operator==(const LinkDown&, const LinkDown&) = default;
};

// The reply to AskWhoHosts. No event follows if no host replies.
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

// The reply to Examine.
struct Examined {
  Evidence evidence;
  friend bool operator==(const Examined&, const Examined&) = default;
};

// The reply to ProbeWorld.
struct WorldSeen {
  WorldProbe look;
  friend bool operator==(const WorldSeen&, const WorldSeen&) = default;
};

// The reply to SampleWorkers.
struct WorkersSeen {
  std::vector<WorkerSight> sights;
  friend bool operator==(const WorkersSeen&, const WorkersSeen&) = default;
};

// The reply to ReadProgress.
struct ProgressSeen {
  std::vector<ProgressSigns> signs;
  friend bool operator==(const ProgressSeen&, const ProgressSeen&) = default;
};

// The output of a worker has just shown that a process group of PyTorch timed out.
struct TimeoutSeen {
  friend bool operator==(const TimeoutSeen&, const TimeoutSeen&) = default;
};

// The reply to ReadLastLines.
struct LastLinesRead {
  bool show_timeout = false;  // as of TimeoutSeen
  friend bool operator==(const LastLinesRead&, const LastLinesRead&) = default;
};

// The reply to ObserveWorkers, with the same number. `stacks_file` has everything that was read;
// empty: it was not written.
struct WorkersObserved {
  std::uint64_t number = 0;
  std::vector<hang::Observation> observations;
  std::string stacks_file = {};
  WallTime time{};
  friend bool operator==(const WorkersObserved&, const WorkersObserved&) = default;
};

// A handled signal arrived.
struct Signalled {
  int signal = 0;
  std::string by = {};  // who stops the job, as a clause; empty if unknown
  friend bool operator==(const Signalled&, const Signalled&) = default;
};

// This node will be preempted soon. `what` is the source, for example "file /run/preempt".
struct Noticed {
  std::string what;
  friend bool operator==(const Noticed&, const Noticed&) = default;
};

// The reply to StandBy: other nodes reach this standby at `port`.
struct StandsBy {
  RoundNumber round{};
  int port = 0;
  friend bool operator==(const StandsBy&, const StandsBy&) = default;
};

// The coordinator in this process has a majority of the votes and is now the leader. `again`: it
// had lost leadership and resumes where it was.
struct Leads {
  bool again = false;
  friend bool operator==(const Leads&, const Leads&) = default;
};

// The watchdog killed this node's workers because this process did not do so in time. Posted before
// the events of their exits.
struct Fenced {
  friend bool operator==(const Fenced&, const Fenced&) = default;
};

// When the lease of the coordinator in this process expires. None: it does not expire.
struct LeadsUntil {
  std::optional<TimePoint> until;
  friend bool operator==(const LeadsUntil&, const LeadsUntil&) = default;
};

// What became of an Upgrade: this program goes on, with a reason, or it is the new one.
struct UpgradeEnded {
  link::Upgraded told;
  friend bool operator==(const UpgradeEnded&, const UpgradeEnded&) = default;
};

// --- actions -------------------------------------------------------------------------------------

// Replace the current link by one to `at`. The reply is LinkUp or LinkDown.
struct Dial {
  Endpoint at;
  Duration step = bounds::dial_attempt_max;  // timeout of each step of the attempt
  friend bool operator==(const Dial&, const Dial&) = default;
};

// The peer has this node in its seat or may give it one. From now on, forward the workers' store
// requests to it.
struct SpeakForWorkers {
  friend bool operator==(const SpeakForWorkers&, const SpeakForWorkers&) = default;
};

struct Say {
  link::Message message;
  friend bool operator==(const Say&, const Say&) = default;
};

struct HangUp {
  std::string reason;
  // Treat the link as dead: messages in flight did not arrive, and the peer has to know that if it
  // is still there. A link that is closed normally needs no such notice.
  bool breaks = false;
  friend bool operator==(const HangUp&, const HangUp&) = default;
};

// Ask each of these addresses, on separate links, which job it hosts.
struct AskWhoHosts {
  std::vector<std::string> addresses;
  int port = 0;
  link::WhoHosts question;
  friend bool operator==(const AskWhoHosts&, const AskWhoHosts&) = default;
};

// This node continues the job if its coordinator is lost, from this record of it
// (rendezvous/job/job_record_json.h). Listen for other nodes. The reply is StandsBy, if that
// succeeds.
struct StandBy {
  RoundNumber round{};
  std::string record;
  friend bool operator==(const StandBy&, const StandBy&) = default;
};

// With a vote: the coordinator may be lost, and this is our vote. Without a vote: the coordinator
// is back. The reply is Leads once there is a majority.
struct Stand {
  link::Join own;
  friend bool operator==(const Stand&, const Stand&) = default;
};

// The coordinator is leaving and has transferred leadership to the standby in this process. The
// reply is Leads.
struct TakeOver {
  link::Join own;
  friend bool operator==(const TakeOver&, const TakeOver&) = default;
};

// The coordinator in this process lost leadership. From now on, links go to other nodes.
struct StepDown {
  friend bool operator==(const StepDown&, const StepDown&) = default;
};

// A new attempt begins. Create its log directories before any worker is spawned. `is_restart`: the
// attempt goes on, and only these workers are started again.
struct Prepare {
  std::vector<WorkerSpec> specs;
  RoundNumber round{};
  std::vector<LocalRank> remaining = {};  // workers that are not started: they change rounds
  bool is_restart = false;
  friend bool operator==(const Prepare&, const Prepare&) = default;
};

struct Work {
  supervisor::ProcessAction action;
  friend bool operator==(const Work&, const Work&) = default;
};

// Collect the evidence of this exit: error file, last lines of output. The reply is Examined.
struct Examine {
  Outcome outcome;
  std::string unreachable_interface = {};  // see Agent::unreachable_interface_
  friend bool operator==(const Examine&, const Examine&) = default;
};

// Check whether the workers use the store, and what the first worker does otherwise. The reply is
// WorldSeen.
struct ProbeWorld {
  friend bool operator==(const ProbeWorld&, const ProbeWorld&) = default;
};

// Sample these workers, because a client watches the job. The reply is WorkersSeen.
struct SampleWorkers {
  std::vector<WorkerView> workers;
  friend bool operator==(const SampleWorkers&, const SampleWorkers&) = default;
};

// Read what the kernel and the output streams show of the workers' progress. The reply is
// ProgressSeen.
struct ReadProgress {
  friend bool operator==(const ReadProgress&, const ReadProgress&) = default;
};

// Read the file to which a worker wrote its stderr, without cpprun in between. The reply is
// LastLinesRead.
struct ReadLastLines {
  LocalRank local_rank;
  friend bool operator==(const ReadLastLines&, const ReadLastLines&) = default;
};

// Find out what the workers do: their stacks and their last collective operations. They run on. The
// reply is WorkersObserved. `number` is that of a Capture, for which all of it is also written to a
// file; 0: it is for the ProgressMonitor. `native` and `is_timeout`: as in a Capture.
struct ObserveWorkers {
  std::uint64_t number = 0;
  RoundNumber round{};
  bool native = false;
  bool is_timeout = false;
  friend bool operator==(const ObserveWorkers&, const ObserveWorkers&) = default;
};

// Execute another program in this process that continues. The reply is UpgradeEnded, there or here.
struct Upgrade {
  std::uint64_t number = 0;
  friend bool operator==(const Upgrade&, const Upgrade&) = default;
};

using Event = std::variant<LinkUp, LinkDown, Heard, Answered, FromWorker, Examined, WorldSeen,
                           WorkersSeen, ProgressSeen, TimeoutSeen, LastLinesRead, WorkersObserved,
                           Signalled, Noticed, StandsBy, Leads, LeadsUntil, Fenced, UpgradeEnded>;
// The supervisor's decisions and the events about the job pass through unchanged. JobEnded is the
// last action. If its code is not 0, the reason, the root cause and everything diagnosed since the
// last Prepare make up the report.
using Action =
    std::variant<Dial, SpeakForWorkers, Say, HangUp, AskWhoHosts, StandBy, Stand, TakeOver,
                 StepDown, Prepare, Work, Examine, ProbeWorld, SampleWorkers, ReadProgress,
                 ReadLastLines, ObserveWorkers, Upgrade, supervisor::Failed, supervisor::Draining,
                 supervisor::Killing, events::Note, events::RoundSealed, events::WorkerFailed,
                 events::WorkerRestarting, events::HangFound, events::Waiting,
                 events::LeaseNearlyMissed, events::LeaderChanged, events::JobEnded>;

}  // namespace agent

}  // namespace cpprun
