// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starts copies of a program and waits for them: what torch.multiprocessing.spawn does, with
// processes that share nothing. A launcher does more (restarts, logs, sweeping); use one where
// there is one.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context_parser.h"

namespace cpprun {

struct SpawnedEnd {
  int exit_code = 0;   // 0, or that of the worker that failed first; 128 + signal
  int local_rank = 0;  // who that was
};

// One process of `argv` for each environment; argv[0] is a path. Returns when all of them are gone.
// When one fails the others are sent TERM, and KILL after bounds::worker_goodbye_wait_max. They
// die with their parent, however it ends.
Result<SpawnedEnd> spawn_workers(const std::vector<std::string>& argv,
                                 const std::vector<Environment>& environments);

// The path of the program that calls.
Result<std::string> own_program();

// A port that nobody listens on right now; somebody else may take it in the next moment.
Result<std::uint16_t> free_port();

}  // namespace cpprun
