// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Everything needed to start this node's workers, and nothing else: a pure function of the
// configuration, the sealed round and the facts about this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun {

enum class StreamTarget {
  console,   // inherited, as in torchrun
  nowhere,   // /dev/null
  file,      // the descriptor is the file
  tee,       // through the pump: prefixed to the console, and to the file if one is named
  kept,      // through the pump to a size-limited file or to none; last lines in the report
  passed,    // through the pump: unchanged to the console; last lines in the report
  terminal,  // like `passed`, by a pseudo-terminal; `console` if none is available
  with_err   // stdout only: the same pipe as stderr, which preserves their order
};

struct StreamPlan {
  StreamTarget target = StreamTarget::console;
  std::string file;  // always for `file`; for `tee` if logs are kept
  // For `tee`: lines that contain one of these words also go to that file of the attempt.
  std::vector<std::string> duplicate_words = {};
  std::string duplicate_file = {};
  std::uint64_t file_bytes_max = 0;  // limit of each file and of its predecessor; 0: none
  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

struct WorkerSpec {
  LocalRank local_rank;
  Rank rank;
  std::vector<std::string> argv;  // macros expanded; argv[0] is the path to execute
  Environment variables;          // added to cpprun's own environment
  StreamPlan out;
  StreamPlan err;
  CpuSet cpus;         // CPUs to run on; empty: the same as cpprun
  std::string prefix;  // of each tee'd line, e.g. "[default0]:"
  std::string
      log_directory;       // this worker's directory, created before it starts; empty without logs
  std::string error_file;  // where the worker writes its error.json; may be empty
  friend bool operator==(const WorkerSpec&, const WorkerSpec&) = default;
};

// Properties of cpprun's own stdout and stderr.
struct ConsoleFacts {
  bool terminal = true;  // stderr is a terminal
  bool one = false;      // both are the same terminal, pipe or file
  friend bool operator==(const ConsoleFacts&, const ConsoleFacts&) = default;
};

// Facts about the machine and this run. `io/host` and `io/log_dir` fill them in.
struct NodeFacts {
  Environment environment;    // cpprun's own
  std::string host;           // the kernel's host name
  std::string node_token;     // random, constant for the life of this cpprun
  std::string master_host;    // where this node's workers reach the store
  int local_store_port = 0;   // on 127.0.0.1, if cpprun forwards to the store; else 0
  SocketInterfaces sockets;   // from `choose_interfaces`
  std::vector<CpuSet> cpus;   // by local rank; empty: no binding
  std::string run_directory;  // <root>/<run_id>_<random>; empty if no logs are kept
  std::string
      error_directory;  // private directory of error files if no logs are kept; may be empty
  ConsoleFacts console = {};
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// One spec per local rank, in order. Cannot fail: `resolve_program` and `choose_interfaces` have
// already rejected invalid input.
std::vector<WorkerSpec> make_plan(const Config& config, const link::Sealed& sealed,
                                  const ResolvedProgram& program, const NodeFacts& facts);

// The note about OMP_NUM_THREADS, printed when torchrun would print its banner.
std::optional<std::string> threads_note(const Config& config, const Environment& environment);

// Replaces `$local_rank` and `${local_rank}`, and `$$` by `$`. Leaves every other `$name`
// unchanged.
std::string expand_macros(const std::string& argument, LocalRank local_rank);

// The prefix of a tee'd line: torchrun's `[<role><local_rank>]:`, or the expanded template.
std::string line_prefix(const LogOptions& logs, const std::string& role, const std::string& host,
                        LocalRank local_rank, Rank rank);

}  // namespace cpprun
