// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Workers that a program starts by itself, without a launcher: the counterpart of
// torch.multiprocessing.spawn. This is what each of them must know, as values.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context_parser.h"

namespace cpprun {

struct SpawnPlan {
  std::vector<int> workers_of_node = {1};  // one number per machine; they may differ
  int node = 0;                            // this machine's place in it
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;  // rank 0 listens there; 0 is for the caller to replace
};

// What each of this node's workers finds in its environment, by local rank. Fails on a plan that
// makes no sense, and on one that is carried out by a worker of a launcher (`own` is the
// environment of the caller): then every one of its workers would start a world of its own.
Result<std::vector<Environment>> spawned_environments(const SpawnPlan& plan,
                                                      const Environment& own);

}  // namespace cpprun
