// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The start of a worker: why it failed (SpawnError), and the mark that its processes wear
// (WorkerMark).

#include <cstdint>
#include <string>

namespace cpprun {

enum class SpawnStage {
  log_folder,    // making the folder of its log files
  pipes,         // making the pipes of its tee'd streams
  clone,         // making the process
  session,       // its own session and process group
  death_signal,  // its end with ours
  processors,    // on which it may run
  stdout_target,
  stderr_target,
  exec,
};

// How far a worker came before it could not be started, and why it could not.
struct SpawnError {
  SpawnStage stage = SpawnStage::exec;
  int error_number = 0;  // errno
  friend bool operator==(const SpawnError&, const SpawnError&) = default;
};

// What was being tried, as in "cannot …": "execute the program", "open its stdout file".
std::string to_text(SpawnStage stage);

// As a shell would have it: 127 where there is nothing to execute, 126 for everything else.
int exit_code_of(const SpawnError& error);

// A number that tells a worker's processes from everybody else's. It is worn as the soft limit of a
// process' real-time computing (RLIMIT_RTTIME), a limit of tens of thousands of years that nobody
// ever meets: a process hands it to everybody it starts, wherever that one runs to, keeps it
// through exec, setsid and an environment that was cleared, and shows it to whoever asks. Batch
// systems pass an environment on to the jobs that they start, and ordinary limits; not this one.
struct WorkerMark {
  std::uint64_t value = 0;  // as it is worn
  friend bool operator==(const WorkerMark&, const WorkerMark&) = default;
};

// A run's mark: its own number, and that of the cpprun whose worker we are, if `worn`, our own
// limit, says so. Whoever looks for the outer one's processes finds the inner one's too.
WorkerMark make_worker_mark(std::uint32_t random, std::uint64_t worn);

// Whether a process that wears `worn` was started by a worker of the run with this mark.
bool is_marked(std::uint64_t worn, WorkerMark mark);

}  // namespace cpprun
