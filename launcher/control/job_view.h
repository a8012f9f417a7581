// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job as a coordinator shows it, read out of its JSON (docs/operating.md). What an older or a
// newer coordinator does not say keeps its default.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace cpprun
