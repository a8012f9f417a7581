// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starting a worker: why it failed (SpawnError), and the mark that its processes carry
// (WorkerMark).

#include <cstdint>
#include <string>

namespace cpprun {

enum class SpawnStage {
  log_directory,  // create the directory of its log files
  pipes,          // create the pipes of its tee'd streams
  clone,          // create the process
  session,        // create its session and process group
  death_signal,   // set the signal it gets when cpprun exits
  processors,     // bind it to its CPUs
  stdout_target,
  stderr_target,
  exec,
};

// The stage at which the start of a worker failed, and why.
struct SpawnError {
  SpawnStage stage = SpawnStage::exec;
  int error_number = 0;  // errno
  friend bool operator==(const SpawnError&, const SpawnError&) = default;
};

// What was being tried, as in "cannot …": "execute", "redirect its stdout".
std::string to_text(SpawnStage stage);

// The exit code of a shell: 127 if the program does not exist, 126 for everything else.
int exit_code_of(const SpawnError& error);

// A number that identifies a worker's processes. It is stored as the soft limit of real-time CPU
// time (RLIMIT_RTTIME), a value of tens of thousands of years that no process ever reaches. Every
// descendant inherits it, even a daemonized one. It survives exec, setsid and a cleared
// environment, and other processes can read it. Batch systems pass the environment and ordinary
// limits on to the jobs they start, but not this one.
struct WorkerMark {
  std::uint64_t value = 0;  // as stored in the limit
  friend bool operator==(const WorkerMark&, const WorkerMark&) = default;
};

// A run's mark: its own number, plus the number of the outer cpprun if `worn`, our own limit, shows
// that we are its worker. A search for the outer run's processes finds the inner run's as well.
WorkerMark make_worker_mark(std::uint32_t random, std::uint64_t worn);

// Whether a process with the limit `worn` was started by a worker of the run with this mark.
bool is_marked(std::uint64_t worn, WorkerMark mark);

}  // namespace cpprun
