// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starts copies of a program and waits for them, like torch.multiprocessing.spawn, as processes
// that share nothing and whose environments follow from a plan. A launcher does more (restarts,
// logs, cleanup); use one if you have one.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context_parser.h"

namespace cpprun {

struct SpawnPlan {
  std::vector<int> workers_of_node = {1};  // one number per machine; they may differ
  int node = 0;                            // the index of this machine
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;  // rank 0 listens there; the caller replaces 0
};

// The environment of each worker of this node, by local rank. Fails if the plan is invalid, or if
// the caller is a launcher's worker (`own` is the caller's environment): each of those workers
// would start a world of its own.
Result<std::vector<Environment>> spawned_environments(const SpawnPlan& plan,
                                                      const Environment& own);

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
