// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What coordinators and daemons report, parsed from their JSON (docs/http-api.md), and their
// events (docs/events.md), as the fields that cpprunctl needs and as text for people.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/command_line.h"
#include "launcher/table.h"
#include "proto/result.h"
#include "rendezvous/hang/evidence.h"

namespace cpprun {

struct FailureView {
  int rank = 0;
  int node = 0;
  std::string host;
  int pid = 0;
  int exit_code = 0;
  std::string signal;  // empty: it exited
  std::string message;
  std::string cause;
};

struct RoundView {
  std::int64_t round = 0;
  int restart = 0;
  double began = 0;
  std::optional<double> ended = {};
  std::string reason;
  std::optional<FailureView> failure = {};
  std::size_t consequence_count = 0;
};

struct MetricView {
  std::string name;
  std::optional<double> value = {};  // empty: not a finite number
};

// How far the workers are, as far as they report it.
struct ProgressView {
  std::optional<std::int64_t> step = {};   // the lowest of all workers
  std::optional<std::int64_t> total = {};  // steps planned
  std::optional<double> remaining = {};    // seconds
  std::vector<MetricView> metrics = {};
};

// A job as reported by a coordinator, parsed from its JSON (docs/http-api.md). Members that an
// older or newer coordinator does not send keep their defaults.
struct JobView {
  std::string id;
  std::string state;
  double now = 0;       // by the reporting coordinator's clock
  std::string page;     // the address of the status page; empty: unknown
  std::string command;  // of the workers; empty: unknown
  std::string user;     // who started it; empty: unknown
  std::optional<double> since = {};
  std::int64_t round = 0;
  int nodes_min = 0;
  int nodes_max = 0;
  std::size_t waiting = 0;
  std::size_t running = 0;
  std::size_t succeeded = 0;
  std::size_t drained = 0;
  std::size_t away = 0;
  int world_size = 0;
  int restarts = 0;
  int restarts_max = 0;
  int restarts_left = 0;
  double lease = 0;
  std::optional<double> silence_max = {};
  std::optional<int> exit_code = {};
  std::string reason;
  // Only in the details of a single job.
  std::string waits_for;
  std::string cover;
  std::vector<std::string> warnings;
  std::optional<FailureView> root = {};
  std::vector<RoundView> rounds;
  std::size_t rounds_left_out = 0;
  ProgressView progress;

  std::size_t nodes() const { return waiting + running + succeeded + drained; }
};

// Statistics reported by the node's workers, if any.
struct StatsView {
  std::optional<double> step = {};              // the lowest of all workers
  std::optional<double> steps_per_second = {};  // the lowest of all workers
  std::optional<double> resident_bytes = {};    // the sum of all workers
  std::optional<double> cpu_percent = {};       // the sum of all workers
  std::optional<double> gpu_percent = {};       // the lowest of all workers
  std::optional<double> gpu_used_bytes = {};    // the sum of their GPUs
};

struct UpgradeView {
  std::uint64_t number = 0;
  std::string version;
  std::string error;  // empty: it was done
  double took = 0;
};

struct NodeView {
  std::string host;
  std::optional<int> node = {};
  std::string state;
  double since = 0;
  std::optional<double> silence = {};
  bool is_connected = true;
  bool is_leaving = false;
  bool hosts_coordinator = false;
  int pid = 0;
  int workers = 0;
  std::optional<int> base_rank = {};
  std::string role;
  std::optional<UpgradeView> upgrade = {};  // the latest of its agent
  StatsView figures;
};

struct NodesView {
  double now = 0;
  std::vector<NodeView> nodes;
  std::optional<std::string> next = {};  // cursor of the next page
};

struct StandbyView {
  std::string name;
  std::string place;
  std::string version;
  bool is_in_sync = false;
  std::uint64_t bytes_behind = 0;
};

struct ChangeView {
  double time = 0;
  std::string from;  // name; empty: there was no leader before
  std::string to;
  std::string reason;
  std::optional<double> silence = {};
};

// A cpprund as it reports itself, parsed from its JSON (docs/http-api.md).
struct DaemonView {
  std::string name;
  std::string place;
  std::string version;
  bool leads = true;
  bool has_etcd = false;
  std::string leader;  // empty: no known leader
  std::string leader_address;
  std::uint64_t epoch = 0;
  double now = 0;  // by the reporting daemon's clock
  std::optional<double> since = {};
  bool is_in_sync = false;
  std::vector<StandbyView> standbys;
  std::optional<bool> is_durable = {};
  bool is_synced = false;
  std::string trouble;
  std::optional<ChangeView> last_change = {};
  std::vector<std::string> warnings;
};

// What the workers of a job were doing when their stacks were captured.
struct CaptureView {
  std::int64_t number = 0;  // 0: they never were
  std::int64_t round = 0;
  int world_size = 0;
  std::string verdict;
  std::vector<std::string> silent_nodes;
  hang::Evidence evidence = {};
};

// From a coordinator's JSON to what people and scripts see.

struct JobsView {
  std::vector<JobView> jobs;
  std::optional<std::string> next = {};  // cursor of the next page
};

Result<JobsView> jobs_view(std::string_view text);
Result<JobView> job_view(std::string_view text);
Result<NodesView> nodes_view(std::string_view text);
Result<CaptureView> capture_view(std::string_view text);

// The content of a command's reply: what was done, or why it was rejected.
std::string said_in(std::string_view text);
std::string error_in(std::string_view text);
// The body of a command's POST request.
std::string order_json(const ControlOptions& options);

// For --json, one line each: the jobs of several replies with their endpoints, a job with its
// nodes, the end of a job.
struct SeenAnswer {
  std::string place;
  std::string text;  // the reply, or why there is none
  bool has_answered = true;
};
std::string list_json(const std::vector<SeenAnswer>& answers);
// `daemon`: the hosting daemon's own JSON. Empty: a cpprun hosts it.
std::string status_json(std::string_view job, const std::vector<std::string>& node_pages,
                        std::string_view daemon = {});
// The daemons found, each with its own JSON, and all jobs.
std::string daemons_json(const std::vector<SeenAnswer>& daemons,
                         const std::vector<SeenAnswer>& answers);
std::string ending_json(const std::string& job, int exit_code, const std::string& reason);
std::string said_json(const std::string& said);

// The report that cpprun --report has written, as a web page that needs nothing else: the status
// page with the report in it. Fails if it is not such a report.
Result<std::string> report_page(std::string_view report);

// From a daemon's JSON to what people see.
Result<DaemonView> daemon_view(std::string_view text);

struct EventView {
  std::string job;
  std::string name;
  double time = 0;
  // For the end of a job.
  int exit_code = 0;
  std::string reason;
  std::string leader;  // for leader_changed: the new leader's address
  bool is_end() const { return name == "job_ended"; }
};

// None if the line is not an event.
std::optional<EventView> event_view(std::string_view line);

// "12:03:04 seen 2 worker_exited  rank 1: SIGKILL (pid 7)", without a newline. The time of day is
// shifted by utc_offset_seconds. The job is omitted if it is known from the context.
struct EventStyle {
  int utc_offset_seconds = 0;
  bool names_job = true;
  Canvas canvas;
};
std::string event_text(std::string_view line, const EventStyle& style);

}  // namespace cpprun
