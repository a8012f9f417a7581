// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a worker knows about itself: its ranks, the size of the world, where the others meet. Read
// from the environment, where the first family of variables that is present decides: torchrun's
// (cpprun sets the same), Open MPI's, Slurm's, or none, which makes a world of one so that a worker
// also runs bare. A public header.

#include <cstdint>
#include <optional>
#include <string>

#include "proto/rank.h"

namespace cpprun::inline v1 {

enum class LaunchedBy { nobody, torchrun, slurm, open_mpi };

// Where the ranks meet. With `hosted_by_launcher` every rank is a client of that store; without it
// rank 0 serves the port itself.
struct MeetingPoint {
  std::string address;
  std::uint16_t port = 0;
  bool hosted_by_launcher = false;
  bool use_libuv = true;  // USE_LIBUV=0 asks for PyTorch's older store server
  friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};

struct Context {
  Rank rank{0};             // among all workers of the job
  LocalRank local_rank{0};  // among those of this machine
  GroupRank group_rank{0};  // of the machine
  int world_size = 1;
  int local_world_size = 1;
  int group_world_size = 1;
  Rank role_rank{0};
  int role_world_size = 1;
  std::string role_name = "default";
  int restart_count = 0;
  int max_restarts = 0;
  std::string run_id = "none";
  MeetingPoint store;
  std::string error_file;       // empty: an error is only printed
  std::string gloo_interfaces;  // as set; gloo reads it itself, here it serves error messages
  bool gloo_lazy = false;       // gloo's ranks have not met when they have joined
  std::optional<std::string> cuda_visible_devices;  // as set; an empty one hides every GPU
  bool distributed_debug = false;  // compare what the ranks call before they call it
  LaunchedBy launched_by = LaunchedBy::nobody;

  bool alone() const { return world_size == 1; }
  // Whether this is the rank that speaks for all.
  bool leads() const { return rank.value == 0; }
  friend bool operator==(const Context&, const Context&) = default;
};

}  // namespace cpprun::inline v1
