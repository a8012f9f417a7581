#pragma once
// What a worker knows of itself: its ranks, the size of the world, where the others meet. Read from
// an environment that is handed in, so that every case can be tried as a value. Four families of
// variables are understood, and the first one present decides: torchrun's (cpprun sets the same),
// Open MPI's, Slurm's, and none at all, which makes a world of one so that a worker also runs bare.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/ids.h"
#include "proto/result.h"

namespace cpprun {

using Environment = std::map<std::string, std::string>;

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
  Rank rank{0};
  LocalRank local_rank{0};
  GroupRank group_rank{0};
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
  // The one rank that talks to people when one voice is enough.
  bool leads() const { return rank.value == 0; }
  friend bool operator==(const Context&, const Context&) = default;
};

// Every mistake is reported at once, each with the variable, its value and what would be right.
Result<Context> parse_context(const Environment& environment);

// The first host of a Slurm node list: `gpu[07-09,12],login` → `gpu07`.
std::string first_slurm_host(const std::string& node_list);

// The tasks of one node in Slurm's run-length notation: `4(x2),1` and node 2 → 1. Zero if the text
// does not reach that node or is not in this notation.
int slurm_tasks_of_node(const std::string& tasks_per_node, int node);

}  // namespace cpprun
