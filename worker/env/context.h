// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a worker knows about itself: its ranks, the world size, the meeting point. Read from the
// environment. The first family of variables found decides: torchrun's (cpprun sets the same), Open
// MPI's, Slurm's, or none, which gives a world of one so that a worker also runs without a
// launcher. A public header.

#include <cstdint>
#include <optional>
#include <string>

#include "proto/rank.h"

namespace cpprun::inline v1 {

enum class LaunchedBy { none, torchrun, slurm, open_mpi };

// Where the ranks meet. With `hosted_by_launcher` every rank is a client of that store; otherwise
// rank 0 serves the port.
struct MeetingPoint {
  std::string address;
  std::uint16_t port = 0;
  bool hosted_by_launcher = false;
  bool use_libuv = true;  // USE_LIBUV=0 selects PyTorch's older store server
  friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};

struct Context {
  Rank rank{0};             // among all workers of the job
  LocalRank local_rank{0};  // among the workers of this machine
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
  std::string error_file;       // empty: errors are only printed
  std::string gloo_interfaces;  // as set; gloo reads it itself, here for error messages
  bool gloo_lazy = false;       // gloo's ranks may join before all are connected
  std::optional<std::string> cuda_visible_devices;  // as set; an empty value hides every GPU
  bool distributed_debug = false;                   // the ranks compare each call before making it
  LaunchedBy launched_by = LaunchedBy::none;

  bool alone() const { return world_size == 1; }
  // Whether this rank acts for all ranks (rank 0).
  bool leads() const { return rank.value == 0; }
  friend bool operator==(const Context&, const Context&) = default;
};

}  // namespace cpprun::inline v1
