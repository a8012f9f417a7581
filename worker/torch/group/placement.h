// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who this rank is and where the group meets, from an init method as torch.distributed takes it:
//   env://                          as the launcher, Slurm, Open MPI or the environment says
//   tcp://host:port                 rank 0 listens there, on that host
//   file:///path                    a file that does not exist yet, in a folder all ranks see
// each with ?rank=…&world_size=… if nobody else says so. Knows no LibTorch.

#include <optional>
#include <string>

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

}  // namespace cpprun
