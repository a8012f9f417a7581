// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who this rank is and where the group meets, from an init method as torch.distributed takes it:
//   env://                          as the launcher, Slurm, Open MPI or the environment says
//   tcp://host:port                 rank 0 listens there, on that host
//   file:///path                    a file that does not exist yet, in a folder all ranks see
// each with ?rank=…&world_size=… if nobody else says so. Knows no LibTorch.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

enum class Meeting {
  alone,  // a group of one that nobody else has to find
  tcp,
  file,
  given,  // a store that the caller brought
};

struct Placement {
  Context context;  // its rank, world_size and store are the ones that count
  Meeting meeting = Meeting::alone;
  std::string file;  // of Meeting::file
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct PlacementRequest {
  std::string init_method = "env://";
  // What is said here counts more than what the environment says.
  std::optional<int> rank;
  std::optional<int> world_size;
  bool store_given = false;
};

// Every mistake is named with what would be right.
Result<Placement> place(const Context& context, const PlacementRequest& request);

// Without a launcher's store rank 0 serves one.
bool serves_store(const Placement& placement);

// The words of joining a group that did not succeed. Knows no LibTorch, only what its errors look
// like.

enum class JoinStage { store, ranks };

// Why this rank could not join: what it tried, where, what came back, what may help. `missing` are
// the ranks that are known not to have come, if `cause` does not say it itself.
std::string join_failure(const Placement& placement, JoinStage stage,
                         std::chrono::milliseconds waited, const std::string& cause,
                         const std::vector<int>& missing = {});

// Why this rank must not join: its number was already taken in this store.
std::string taken_rank(const Placement& placement);

// The ranks whose keys a store's time-out complains about (`…keys: /default_pg/0//cpu//0/3`).
std::vector<int> ranks_waited_for(const std::string& cause);

}  // namespace cpprun
