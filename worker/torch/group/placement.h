// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The rank of this process and the meeting point, from an init method of torch.distributed:
//   env://                          from the launcher, Slurm, Open MPI or the environment
//   tcp://host:port                 rank 0 listens there, on that host
//   file:///path                    a file that does not exist yet, in a directory all ranks see
// Each takes ?rank=…&world_size=… if no other source sets them. Does not depend on LibTorch.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

enum class Meeting {
  alone,  // a group of one rank, which no other process has to find
  tcp,
  file,
  given,  // a store from the caller
};

struct Placement {
  Context context;  // with the final rank, world_size and store
  Meeting meeting = Meeting::alone;
  std::string file;  // for Meeting::file
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct PlacementRequest {
  std::string init_method = "env://";
  // Overrides the environment.
  std::optional<int> rank;
  std::optional<int> world_size;
  bool store_given = false;
};

// Each error message names the invalid value and a valid one.
Result<Placement> place(const Context& context, const PlacementRequest& request);

// True if this rank must serve the store: rank 0, without a launcher's store.
bool serves_store(const Placement& placement);

// Error messages of a failed join. Does not call LibTorch; only parses the text of its errors.

enum class JoinStage { store, ranks };

// Why this rank could not join: what it tried, where, the error, and a hint. `missing`: the ranks
// known to be missing, if `cause` does not name them.
std::string join_failure(const Placement& placement, JoinStage stage,
                         std::chrono::milliseconds waited, const std::string& cause,
                         const std::vector<int>& missing = {});

// Why this rank must not join: another process already joined this store with the same rank.
std::string taken_rank(const Placement& placement);

// The missing ranks, from the keys in a store's time-out error (`…keys: /default_pg/0//cpu//0/3`).
std::vector<int> ranks_waited_for(const std::string& cause);

}  // namespace cpprun
