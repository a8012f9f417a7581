// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The checked configuration of a run (Config), and the choice of output streams in it
// (StreamChoices).

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/endpoint.h"
#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/restart_rules.h"
#include "proto/result.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

// Which of a worker's two output streams a flag means, for which local ranks: the syntax of -r and
// -t. `3` means both streams of everybody, `0:1,1:3` names local ranks.
struct StreamChoice {
  bool out = false;
  bool err = false;
  friend bool operator==(const StreamChoice&, const StreamChoice&) = default;
};

struct StreamChoices {
  StreamChoice everybody;  // holds where `by_local_rank` is empty
  std::map<int, StreamChoice> by_local_rank;
  friend bool operator==(const StreamChoices&, const StreamChoices&) = default;

  // A rank that a map does not name means neither stream.
  StreamChoice of(int local_rank) const;
  bool any() const;
};

Result<StreamChoices> parse_stream_choices(std::string_view text);

// What a shell expects of a command line that cannot be obeyed.
inline constexpr int usage_exit_code = 2;

enum class RendezvousMode {
  standalone,    // one node, coordinator in this process on a free loopback port
  fixed_master,  // torchrun's "static": the master serves at a port that everybody was told
  endpoint,      // torchrun's "c10d": whoever runs on the endpoint's machine hosts the coordinator
};

enum class ProgramKind {
  automatic,  // a .py through Python, anything executable directly
  python,     // --run-path: a file through Python, whatever its name
  module,     // -m
  no_python,  // --no-python: looked up on PATH and executed
};

// --numa-binding: which processors a worker gets.
enum class NumaBinding {
  node,          // all of the NUMA node of its GPU
  socket,        // all of that node's socket
  exclusive,     // its share of that node's cores
  core_complex,  // the cores of that node that share one last-level cache
};

// --log-time: whether cpprun's own lines begin with their time.
enum class LogTimes {
  automatic,  // where stderr is no terminal
  always,
  never,
};

// --beat-timeout: the silence after which a worker that has beaten is hung.
struct BeatTimeout {
  bool automatic = false;  // several times the slowest step seen
  Duration fixed{};        // otherwise
  friend bool operator==(const BeatTimeout&, const BeatTimeout&) = default;
};

// --signal-scope: which processes of a worker get the signal that asks it to end.
enum class SignalScope {
  process,  // the worker's main process; each of the others when its parent has exited
  group,    // its whole process group at once, as under torchrun
};

// --stragglers: what happens to processes that workers started and that outlive a good end.
enum class Stragglers {
  wait,   // they have the grace period
  kill,   // they are killed at once
  leave,  // they keep running, as under torchrun
};

struct Program {
  ProgramKind kind = ProgramKind::automatic;
  std::string script;
  std::vector<std::string> arguments;  // verbatim; macros are replaced per worker by the plan
  friend bool operator==(const Program&, const Program&) = default;
};

struct LogOptions {
  std::optional<std::string> root;   // --log-dir, where given and not /dev/null
  bool disabled = false;             // --log-dir=/dev/null: no files at all, not even error.json
  int attempts_kept = 0;             // --log-keep: folders of the last ones; 0: all
  std::uint64_t file_bytes_max = 0;  // --log-max-bytes; 0: no limit
  StreamChoices redirects;           // -r
  StreamChoices tee;                 // -t
  std::vector<std::string> duplicate_out;  // --duplicate-stdout-filters: words, any of them
  std::vector<std::string> duplicate_err;
  std::optional<std::vector<int>> console_ranks;  // --local-ranks-filter; nothing: everybody
  std::string report_file;  // --report, --events: empty where they are not wanted
  std::string events_file;
  bool stderr_inherited = false;    // --stderr=inherit: even where it is no terminal
  bool events_on_console = false;   // --event-log-handler=console
  LogLevel level = LogLevel::info;  // of cpprun's own words
  LogTimes times = LogTimes::automatic;
  std::optional<std::string> prefix_template;  // --log-line-prefix-template
  friend bool operator==(const LogOptions&, const LogOptions&) = default;
};

// How workers reach their job's store.
enum class StoreWay {
  automatic,  // local with a secret, direct without
  direct,     // they connect to the master, as under torchrun
  local       // they connect to cpprun of their own node, which forwards what they say
};

// etcd says which node hosts the coordinator (--rdzv-backend=etcd); see plan/meeting_place.h.
struct EtcdMeeting {
  std::string endpoints = {};  // "https://a:2379,https://b:2379", as a cpprund takes them
  std::string user = {};
  std::string password_file = {};
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
  std::string prefix = {};             // of the jobs that belong together
  std::optional<Duration> lease = {};  // of the node that hosts, in etcd
  friend bool operator==(const EtcdMeeting&, const EtcdMeeting&) = default;
};

// Everything the command line and the PET_* variables decided, checked, with every default filled
// in. A plain value: `cli` makes it, everybody else only reads it.
struct Config {
  RendezvousMode rendezvous = RendezvousMode::standalone;
  Endpoint endpoint{"127.0.0.1", 0};  // port 0 in standalone: the coordinator takes a free one
  bool place_by_endpoint = false;     // --rdzv-endpoint has said it, not --master-addr
  // The cpprunds of a set, one of which leads: two or more, `endpoint` is the first. Empty: there
  // is that one, or a node hosts.
  std::vector<Endpoint> places = {};
  // Then `endpoint` is the first of etcd's members, and with the start this node's own cpprund.
  std::optional<EtcdMeeting> etcd = {};
  std::string job = "none";  // rdzv id
  int nodes_min = 1;
  int nodes_max = 1;
  std::optional<bool> is_host;   // --rdzv-conf is_host=…: host the coordinator here, or never
  std::optional<int> node_rank;  // where --node-rank or PET_NODE_RANK was given
  int local_world_size = 1;
  std::optional<NumaBinding> numa_binding;
  bool virtual_local_rank = false;             // every worker sees one device, as number 0
  std::optional<std::string> local_rank_flag;  // of the script: --<this>=<local rank> comes first
  std::string role = "default";
  RestartRules restarts;
  std::string restart_state_file = {};        // --restart-state; empty: none is kept
  Duration grace = std::chrono::seconds(30);  // between TERM and KILL
  SignalScope signal_scope = SignalScope::process;
  Stragglers stragglers = Stragglers::wait;
  std::optional<BeatTimeout> beat_timeout;  // nothing: nobody is watched
  std::vector<int> signals;                 // handled ones, by number, each once
  std::string signals_text;                 // the same as exported to the workers
  std::vector<int> notices = {};            // passed on to those workers that take them
  std::string preemption_notice = {};       // --preemption-notice; empty: none is looked for
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(30);  // elastic: for more nodes, once MIN are here
  Duration keep_alive_interval = std::chrono::seconds(1);
  int keep_alive_attempts_max = 3;  // the lease is interval × attempts
  std::optional<std::string> local_addr;
  std::string secret_file = {};          // --secret-file; empty: the user's own, where there is one
  bool insecure = false;                 // --insecure: says nothing of a job without a secret
  StoreWay store = StoreWay::automatic;  // settled when it is known whether there is a secret
  bool require_secret = false;  // CPPRUN_REQUIRE_SECRET=1: no job of several nodes without one
  bool standby = true;          // --standby: a job whose master is lost goes on under another node
  StatusAccess status_access = StatusAccess::user;  // who may look by HTTP, where this node hosts
  Program program;
  LogOptions logs;
  std::vector<std::string>
      notes;  // sentences worth saying at the start, e.g. a flag without effect
  friend bool operator==(const Config&, const Config&) = default;

  Duration lease() const { return keep_alive_interval * keep_alive_attempts_max; }
  bool elastic() const { return nodes_min < nodes_max; }
  bool meets_at_a_set() const { return !places.empty() || etcd.has_value(); }
  bool may_have_standby() const {
    return standby && !meets_at_a_set() && elastic() &&
           nodes_max >= static_cast<int>(bounds::standby_nodes_min);
  }
  // A lease of one heartbeat would run out while that one is on its way.
  Duration heartbeat() const { return std::min(keep_alive_interval, lease() / 2); }
};

}  // namespace cpprun
