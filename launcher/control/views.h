// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What coordinators and daemons show, read out of their JSON (docs/operating.md), and their events.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/command_line.h"
#include "proto/result.h"

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

// A job as a coordinator shows it, read out of its JSON (docs/operating.md). What an older or a
// newer coordinator does not say keeps its default.
struct JobView {
  std::string id;
  std::string state;
  double now = 0;  // of the coordinator that says it
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
  // One job alone has these as well.
  std::string waits_for;
  std::string cover;
  std::vector<std::string> warnings;
  std::optional<FailureView> root = {};
  std::vector<RoundView> rounds;
  std::size_t rounds_left_out = 0;

  std::size_t nodes() const { return waiting + running + succeeded + drained; }
};

// What its workers say of themselves, where they do.
struct FiguresView {
  std::optional<double> step = {};              // of the one that is behind
  std::optional<double> steps_per_second = {};  // of the slowest
  std::optional<double> resident_bytes = {};    // of all of them
  std::optional<double> cpu_percent = {};       // of all of them
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
  FiguresView figures;
};

struct NodesView {
  double now = 0;
  std::vector<NodeView> nodes;
  std::optional<std::string> next = {};  // more follow behind that place
};

struct StandbyView {
  std::string name;
  std::string place;
  std::string version;
  bool is_in_sync = false;
  double bytes_behind = 0;
};

struct ChangeView {
  double time = 0;
  std::string from;  // its name; empty: nobody led before
  std::string to;
  std::string reason;
  std::optional<double> silence = {};
};

// A cpprund as it shows itself, read out of its JSON (docs/operating.md).
struct DaemonView {
  std::string name;
  std::string place;
  std::string version;
  bool leads = true;
  bool has_etcd = false;
  std::string leader;  // empty: nobody leads, as far as is known
  std::string leader_place;
  std::uint64_t epoch = 0;
  double now = 0;  // of the daemon that says it
  std::optional<double> since = {};
  bool is_in_sync = false;
  std::vector<StandbyView> standbys;
  std::optional<bool> is_durable = {};
  bool is_synced = false;
  std::string trouble;
  std::optional<ChangeView> last_change = {};
  std::vector<std::string> warnings;
};

// Between a coordinator's JSON and what people and scripts are shown.

struct JobsView {
  std::vector<JobView> jobs;
  std::optional<std::string> next = {};  // more follow behind that one
};

Result<JobsView> jobs_view(std::string_view text);
Result<JobView> job_view(std::string_view text);
Result<NodesView> nodes_view(std::string_view text);

// What an order's answer says: what was done, or why it was not.
std::string said_in(std::string_view text);
std::string error_in(std::string_view text);
// What an order says: the body of its POST.
std::string order_json(const Wish& wish);

// For --json. One line each: the jobs of several answers in one, each with where it is seen; a job
// with its nodes; the end of a job.
struct SeenAnswer {
  std::string place;
  std::string text;  // or why there is none
  bool has_answered = true;
};
std::string list_json(const std::vector<SeenAnswer>& answers);
// `daemon`: what hosts it, as that has said; empty: a cpprun does.
std::string status_json(std::string_view job, const std::vector<std::string>& node_pages,
                        std::string_view daemon = {});
// The daemons that were found, each as it has said, and all jobs.
std::string daemons_json(const std::vector<SeenAnswer>& daemons,
                         const std::vector<SeenAnswer>& answers);
std::string ending_json(const std::string& job, int exit_code, const std::string& reason);
std::string said_json(const std::string& said);

// Between a daemon's JSON and what people are shown.
Result<DaemonView> daemon_view(std::string_view text);

// Server-sent events read out of bytes: those that are whole, in order.
class EventStream {
 public:
  // So many bytes have come; what has become whole with them. Remarks are passed over.
  Result<std::vector<std::string>> hear(std::string_view bytes);
  // The id of the last one that was heard, as it was said; empty: none had one.
  const std::string& last() const { return last_; }

 private:
  void take_line(std::string_view line, std::vector<std::string>& whole);

  std::string unread_;  // of a line that is not whole
  std::string data_;    // of an event that is not whole
  bool has_data_ = false;
  std::string last_;
};

}  // namespace cpprun
