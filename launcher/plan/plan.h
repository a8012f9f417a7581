// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Everything needed to start this node's workers, and nothing else: a pure function of the
// configuration, the sealed round and what is known of this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/cpu_binding.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/result.h"

namespace cpprun {

enum class StreamTarget {
  console,   // inherited, as torchrun does
  nowhere,   // /dev/null
  file,      // the descriptor itself is the file
  tee,       // through the pump: console with prefix, and the file where one is named
  kept,      // through the pump into its limited file, or to no file; last lines to the report
  passed,    // through the pump: every byte to the console as it is, its last lines to the report
  terminal,  // the same through a pseudo-terminal; the console where none can be had
  with_err   // for stdout alone: the same pipe as stderr's, which keeps the order among the two
};

struct StreamPlan {
  StreamTarget target = StreamTarget::console;
  std::string file;  // for `file` always, for `tee` where logs are kept
  // For `tee`: whatever line holds one of these words also goes to that file of the attempt.
  std::vector<std::string> duplicate_words = {};
  std::string duplicate_file = {};
  std::uint64_t file_bytes_max = 0;  // in each of the files, and in the one before; 0: no limit
  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

struct WorkerSpec {
  LocalRank local_rank;
  Rank rank;
  std::vector<std::string> argv;  // macros replaced; argv[0] is the path to execute
  Environment variables;          // laid over what cpprun itself was started with
  StreamPlan out;
  StreamPlan err;
  CpuSet cpus;             // on which it runs; empty: on those of cpprun
  std::string prefix;      // of each tee'd line, e.g. "[default0]:"
  std::string log_folder;  // this worker's own, to be made before it starts; empty without logs
  std::string error_file;  // where the worker leaves its error.json; may be empty
  friend bool operator==(const WorkerSpec&, const WorkerSpec&) = default;
};

// What cpprun's own stdout and stderr are.
struct ConsoleFacts {
  bool terminal = true;  // stderr is one
  bool one = false;      // both are the same terminal, pipe or file
  friend bool operator==(const ConsoleFacts&, const ConsoleFacts&) = default;
};

// What the plan must know of the machine and of this run. `io/host` and `io/log_dir` fill it in.
struct NodeFacts {
  Environment environment;   // cpprun's own
  std::string host;          // the machine's name, as the kernel knows it
  std::string node_token;    // random, the same for the whole life of this cpprun
  std::string master_host;   // at which the workers of this node reach the store
  int local_store_port = 0;  // or of 127.0.0.1 alone, where cpprun itself takes them there
  SocketInterfaces sockets;  // chosen by `choose_interfaces`
  std::vector<CpuSet> cpus;  // by local rank; empty: nobody is bound
  std::string run_folder;    // <root>/<run_id>_<random>, empty where no logs are kept
  std::string error_folder;  // private place of error files where no logs are kept; may be empty
  ConsoleFacts console = {};
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// One spec per local rank, in order. Cannot fail: what could, `resolve_program` and
// `choose_interfaces` have refused before.
std::vector<WorkerSpec> make_plan(const Config& config, const link::Sealed& sealed,
                                  const ResolvedProgram& program, const NodeFacts& facts);

// The sentence about OMP_NUM_THREADS, where torchrun would print its banner.
std::optional<std::string> threads_note(const Config& config, const Environment& environment);

// `$local_rank` and `${local_rank}` replaced, `$$` made `$`, every other `$name` left as it is.
std::string expand_macros(const std::string& argument, LocalRank local_rank);

// The prefix of a tee'd line: torchrun's `[<role><local_rank>]:`, or the template's text.
std::string line_prefix(const LogOptions& logs, const std::string& role, const std::string& host,
                        LocalRank local_rank, Rank rank);

}  // namespace cpprun
