// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What was read from one worker, unjudged: /proc, and the answers of the server in the worker that
// PyTorch and <cpprun/worker.h> have (handlers "ping", "dump_traceback", "fr_trace_json").
// `evidence_of` interprets it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/hang/evidence.h"

namespace cpprun::hang {

struct ThreadObservation {
  int tid = 0;
  std::string name = {};
  char state = '?';               // as in ps: R S D T t Z X; D: only if seen in both reads
  std::string wait_channel = {};  // kernel function it sleeps in; empty: unknown
  std::optional<int> system_call =
      {};                    // its number on this machine; nullopt: none, or not readable
  Duration cpu{};            // since its start
  Duration cpu_meanwhile{};  // between two reads, `Observation::interval` apart
  friend bool operator==(const ThreadObservation&, const ThreadObservation&) = default;
};

struct ProcessObservation {
  int pid = 0;
  int parent = 0;
  std::string name = {};  // up to 15 characters
  char state = '?';
  std::vector<ThreadObservation> threads = {};  // the main thread first; at most threads_max
  int thread_count = 0;
  friend bool operator==(const ProcessObservation&, const ProcessObservation&) = default;
};

// A request to the worker's server.
struct Answer {
  enum class Kind {
    not_asked,  // there is no server
    answered,   // `body` has the answer; it may be garbage
    silent,     // the connection was accepted, or not, and no answer came in time
    failed,     // `reason` tells why
  };
  Kind kind = Kind::not_asked;
  std::string body = {};
  std::string reason = {};
  Duration took{};  // until it was answered
  friend bool operator==(const Answer&, const Answer&) = default;
};

struct Observation {
  LocalRank local_rank;
  Rank rank;
  int pid = 0;
  bool has_exited = false;
  ProcessObservation process = {};
  std::vector<ProcessObservation> children = {};  // of all generations; at most children_max
  Duration interval{};
  Answer ping = {};
  Answer traceback = {};                           // faulthandler's text, or that of a C++ worker
  std::vector<std::string> later_tracebacks = {};  // if several samples were asked for
  Answer flight_record = {};
  Answer nccl_record = {};      // NCCL has a recorder of its own
  Answer memory = {};           // a traceback from its memory, where the server has not answered
  bool main_holds_gil = false;  // by its memory
  Answer py_spy = {};           // output of `py-spy dump --json`, if it was run
  // Of its stderr, if a process group timed out and they say that this worker gave up waiting.
  std::vector<std::string> last_lines = {};
  std::string native = {};  // frames of the main thread by libdw: "function file:line" per line
  // Why `native` is empty, for the file with all stacks; empty if those frames were not asked for.
  std::string native_reason = {};
  bool shows_native = false;  // those frames were requested, whatever else is known
  friend bool operator==(const Observation&, const Observation&) = default;
};

inline constexpr std::size_t threads_max = 64;
inline constexpr std::size_t children_max = 16;
inline constexpr std::size_t answer_bytes_max = 4 << 20;

// "Thread 0x… (most recent call first):" and "  File "x.py", line 3 in f" of faulthandler, as
// frames of each thread, innermost first. The main thread is the last one in faulthandler's output.
// Where that has left threads out, there is none. A first line "native" means frames of C or C++.
struct ThreadStack {
  std::string name = {};
  bool is_main = false;
  std::vector<Frame> frames = {};
  bool is_native = false;
  friend bool operator==(const ThreadStack&, const ThreadStack&) = default;
};
Result<std::vector<ThreadStack>> parse_traceback(std::string_view text);
Result<std::vector<ThreadStack>> parse_py_spy(std::string_view json);
// The frames of the last traceback that Python has printed, innermost first: "  File "x.py", line
// 3, in f", after torch's "[rank0]: ".
std::vector<Frame> parse_printed_traceback(const std::vector<std::string>& lines);
// The positions in all process groups from `fr_trace_json`.
Result<std::vector<Position>> parse_flight_record(std::string_view json);

WorkerEvidence evidence_of(const Observation& observation);

// Everything that was read, for the file with all stacks.
std::string full_text(const Observation& observation);

// For the pipe from the process that gathers it: CBOR, since answers are large and may have any
// bytes.
std::string to_text(const std::vector<Observation>& observations);
Result<std::vector<Observation>> observations_of(std::string_view text);

}  // namespace cpprun::hang
