// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The checked configuration of a run (Config), and the output streams selected in it
// (StreamChoices).

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/job/bounds.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

// Selects a worker's output streams by local rank, with the syntax of -r and -t: `3` selects both
// streams of all workers, `0:1,1:3` names local ranks.
struct StreamChoice {
  bool out = false;
  bool err = false;
  friend bool operator==(const StreamChoice&, const StreamChoice&) = default;
};

struct StreamChoices {
  StreamChoice all;  // used if `by_local_rank` is empty
  std::map<int, StreamChoice> by_local_rank;
  friend bool operator==(const StreamChoices&, const StreamChoices&) = default;

  // A rank missing from the map selects neither stream.
  StreamChoice of(int local_rank) const;
  bool any() const;
};

Result<StreamChoices> parse_stream_choices(std::string_view text);

// The conventional exit code for an invalid command line.
inline constexpr int usage_exit_code = 2;

enum class RendezvousMode {
  standalone,    // one node, coordinator in this process on a free loopback port
  fixed_master,  // torchrun's "static": the coordinator listens on a port known to all nodes
  endpoint,      // torchrun's "c10d": the node on the endpoint's machine hosts the coordinator
};

enum class ProgramKind {
  automatic,  // a .py file by Python, anything executable directly
  python,     // --run-path: a file by Python, whatever its name
  module,     // -m
  no_python,  // --no-python: looked up on PATH and executed
};

// --numa-binding: the CPUs of a worker.
enum class NumaBinding {
  node,          // all CPUs of its GPU's NUMA node
  socket,        // all CPUs of that node's socket
  exclusive,     // an exclusive share of that node's cores
  core_complex,  // cores of that node that share one last-level cache
};

// --log-time: whether cpprun's own lines begin with the time.
enum class LogTimes {
  automatic,  // if stderr is not a terminal
  always,
  never,
};

// --beat-timeout: a worker that has sent a heartbeat counts as hung after this silence.
struct HeartbeatTimeout {
  bool automatic = false;  // derive it from the slowest step seen
  Duration fixed{};        // used otherwise
  friend bool operator==(const HeartbeatTimeout&, const HeartbeatTimeout&) = default;
};

// --probe: whether workers get a server that tells their stacks.
enum class Probe {
  automatic,  // with --hang-timeout
  on,
  off,
};

// --signal-scope: which processes of a worker get the signal to stop.
enum class SignalScope {
  process,  // the main process first; each of the others when its parent has exited
  group,    // its whole process group at once, as torchrun does
};

// --stragglers: what happens to processes that workers started and that still run after the workers
// succeeded.
enum class Stragglers {
  wait,   // give them the grace period
  kill,   // kill them at once
  leave,  // let them run, as torchrun does
};

struct Program {
  ProgramKind kind = ProgramKind::automatic;
  std::string script;
  std::vector<std::string> arguments;  // verbatim; the plan expands macros per worker
  friend bool operator==(const Program&, const Program&) = default;
};

struct LogOptions {
  std::optional<std::string> root;         // --log-dir, if given and not /dev/null
  bool disabled = false;                   // --log-dir=/dev/null: no files, not even error.json
  int attempts_kept = 0;                   // --log-keep: number of attempts to keep; 0: all
  std::uint64_t file_bytes_max = 0;        // --log-max-bytes; 0: no limit
  StreamChoices redirects;                 // -r
  StreamChoices tee;                       // -t
  std::vector<std::string> duplicate_out;  // --duplicate-stdout-filters: any of these words
  std::vector<std::string> duplicate_err;
  std::optional<std::vector<int>> console_ranks;  // --local-ranks-filter; nullopt: all
  std::string report_file;                        // --report, --events; empty: not wanted
  std::string events_file;
  bool stderr_inherited = false;    // --stderr=inherit: even if stderr is not a terminal
  bool events_on_console = false;   // --event-log-handler=console
  LogLevel level = LogLevel::info;  // of cpprun's own messages
  LogTimes times = LogTimes::automatic;
  std::optional<std::string> prefix_template;  // --log-line-prefix-template
  friend bool operator==(const LogOptions&, const LogOptions&) = default;
};

// How workers connect to their job's store.
enum class StoreWay {
  automatic,  // local with a secret, direct without
  direct,     // they connect to the coordinator, as with torchrun
  local       // they connect to their node's cpprun, which forwards the data
};

// etcd stores which node hosts the coordinator (--rdzv-backend=etcd); see plan/meeting_place.h.
struct EtcdMeeting {
  std::string endpoints = {};  // "https://a:2379,https://b:2379", in the format for cpprund
  std::string user = {};
  std::string password_file = {};
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
  std::string prefix = {};             // common to related jobs
  std::optional<Duration> lease = {};  // in etcd, of the hosting node
  friend bool operator==(const EtcdMeeting&, const EtcdMeeting&) = default;
};

// The settings from the command line and the PET_* variables, checked, with all defaults filled in.
// A plain value: `cli` creates it, all other code only reads it.
struct Config {
  RendezvousMode rendezvous = RendezvousMode::standalone;
  Endpoint endpoint{"127.0.0.1", 0};  // standalone: port 0, the coordinator takes a free port
  bool place_by_endpoint = false;     // set by --rdzv-endpoint, not by --master-addr
  // The cpprunds of a cluster, one of which is the leader: two or more; `endpoint` is the first.
  // Empty: a single cpprund at `endpoint`, or a node hosts the coordinator.
  std::vector<Endpoint> places = {};
  // If set, `endpoint` is the first etcd endpoint. At the start it is replaced by this node's own
  // cpprund.
  std::optional<EtcdMeeting> etcd = {};
  std::string job = "none";  // rdzv id
  int nodes_min = 1;
  int nodes_max = 1;
  std::optional<bool> is_host;  // --rdzv-conf is_host=…: always or never host the coordinator here
  std::optional<int> node_rank;  // set if --node-rank or PET_NODE_RANK was given
  int local_world_size = 1;
  std::optional<NumaBinding> numa_binding;
  bool virtual_local_rank = false;             // every worker sees a single device, as number 0
  std::optional<std::string> local_rank_flag;  // name of the script's option for its local rank
  std::string role = "default";
  RestartRules restarts;
  std::string restart_state_file = {};        // --restart-state; empty: no state is saved
  Duration grace = std::chrono::seconds(30);  // between SIGTERM and SIGKILL
  SignalScope signal_scope = SignalScope::process;
  Stragglers stragglers = Stragglers::wait;
  std::optional<HeartbeatTimeout> beat_timeout;  // nullopt: workers are not monitored
  std::optional<Duration> hang_timeout;          // nullopt: hangs of the job are not detected
  Probe probe = Probe::automatic;
  std::vector<std::string> warm_modules = {};  // --warm; empty: workers are executed
  std::vector<int> signals;                    // numbers of those to handle, no duplicates
  std::string signals_text;                    // the same in the form exported to the workers
  std::vector<int> notices = {};               // forwarded to those workers that handle them
  std::string preemption_notice = {};          // --preemption-notice; empty: not monitored
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(30);  // elastic: wait for more nodes once MIN are here
  Duration keep_alive_interval = std::chrono::seconds(1);
  int keep_alive_attempts_max = 3;  // the lease is interval × attempts
  std::optional<std::string> local_addr;
  std::string secret_file = {};          // --secret-file; empty: the user's own, if there is one
  bool insecure = false;                 // --insecure: no warning for a job without a secret
  StoreWay store = StoreWay::automatic;  // resolved when it is known whether there is a secret
  bool require_secret = false;           // CPPRUN_REQUIRE_SECRET=1: multi-node jobs must have one
  bool standby = true;  // --standby: another node takes over if the coordinator's node is lost
  StatusAccess status_access = StatusAccess::user;  // read access by HTTP, on the coordinator
  Program program;
  LogOptions logs;
  std::vector<std::string> notes;  // to print at the start, e.g. that a flag has no effect
  friend bool operator==(const Config&, const Config&) = default;

  Duration lease() const { return keep_alive_interval * keep_alive_attempts_max; }
  bool elastic() const { return nodes_min < nodes_max; }
  bool probes() const {
    return probe == Probe::on || (probe == Probe::automatic && hang_timeout.has_value());
  }
  bool meets_at_a_set() const { return !places.empty() || etcd.has_value(); }
  bool may_have_standby() const {
    return standby && !meets_at_a_set() && elastic() &&
           nodes_max >= static_cast<int>(bounds::standby_nodes_min);
  }
  // At most half the lease. Otherwise a lease of one interval would expire while the heartbeat is
  // on its way.
  Duration heartbeat() const { return std::min(keep_alive_interval, lease() / 2); }
};

}  // namespace cpprun
