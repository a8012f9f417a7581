// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How far a worker came before it could not be started, and why it could not.

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

struct SpawnError {
  SpawnStage stage = SpawnStage::exec;
  int error_number = 0;  // errno
  friend bool operator==(const SpawnError&, const SpawnError&) = default;
};

// What was being tried, as in "cannot …": "execute the program", "open its stdout file".
std::string to_text(SpawnStage stage);

// As a shell would have it: 127 where there is nothing to execute, 126 for everything else.
int exit_code_of(const SpawnError& error);

}  // namespace cpprun
