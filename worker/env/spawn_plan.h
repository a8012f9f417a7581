// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Workers that a program starts itself, without a launcher, like torch.multiprocessing.spawn.
// Computes their environments.

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

}  // namespace cpprun
