// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starts copies of a program and waits for them, like torch.multiprocessing.spawn, as processes
// that share nothing. A launcher does more (restarts, logs, cleanup); use one if you have one.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context_parser.h"

namespace cpprun {

struct SpawnedEnd {
  int exit_code = 0;   // 0, or from the first worker that failed; 128 + signal
  int local_rank = 0;  // of that worker
};

// Starts one process of `argv` for each environment; argv[0] is a path. Returns when all have
// exited. If one fails, the others get SIGTERM, and SIGKILL after bounds::worker_goodbye_wait_max.
// The processes die with their parent, however it exits.
Result<SpawnedEnd> spawn_workers(const std::vector<std::string>& argv,
                                 const std::vector<Environment>& environments);

// The path of the calling program.
Result<std::string> own_program();

// A port without a listener at this moment; another process may take it at any time.
Result<std::uint16_t> free_port();

}  // namespace cpprun
