// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The members of a ProcessGroup, for the files that implement it.

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "worker/torch/group/backend_map.h"
#include "worker/torch/group/collective_check.h"
#include "worker/torch/group/process_group.h"
#include "worker/torch/group/stall_watch.h"

namespace cpprun {

// State that a group shares with the groups created from it.
struct GroupFamily {
  Context context;
  BackendMap backends;
  ProcessGroupOptions options;
  c10::Device device = c10::Device(c10::kCPU);  // the GPU if an nccl backend needs one
  int groups_made = 0;                          // Python's counter, which names the groups
  // Synchronised DistributedDataParallel steps that this rank has begun, over all its groups. When
  // ranks diverge, the rank with fewer steps ran out of batches.
  std::atomic<std::int64_t> steps = 0;
};

// Invariant: either all members are set, or the group was left and none is.
struct ProcessGroup::Parts {
  c10::intrusive_ptr<c10d::Store> store;     // without the group's prefixes
  c10::intrusive_ptr<c10d::Store> numbered;  // the prefix of this group's keys
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string name;
  std::chrono::milliseconds timeout{};  // of one operation
  std::vector<int> global_ranks;
  std::shared_ptr<GroupFamily> family;
  std::unique_ptr<CollectiveCheck> check;
  std::shared_ptr<StallWatch> stalls;  // null in a group of one; shared with running works
  bool hosts_store = false;
  // Whether joining proves that all ranks have joined: yes for mpi, and for gloo unless it connects
  // lazily; no for nccl, which connects on first use.
  bool met_by_joining = false;
  std::int64_t ranks_that_say_good_bye = 0;
};

struct Connection {
  c10::intrusive_ptr<c10d::Store> parent;  // the group adds its own prefix to it
  std::string name;
  std::vector<int> global_ranks;
  int rank = 0;  // in the group
};

// Connects to the other members. Needs `store` and `family`; sets the rest, except `hosts_store`
// and `ranks_that_say_good_bye`.
void connect(ProcessGroup::Parts& parts, const Connection& connection, const BackendMap& backends,
             const ProcessGroupOptions& options);

// Whether every member runs this library, the same on all of them. Call it after all have come.
bool all_cpp(const ProcessGroup& group);

// What is known of the other ranks when `operation` failed because of `cause`. If a peer exited:
// the members that left in order, and after how many steps. If time was up: the operations the
// others wait in. Returns a clause to append to the error message, or an empty string.
std::string departures(const ProcessGroup& group, const std::string& operation,
                       const std::string& cause);

// Drops the other lines of the message: an internal back-trace of LibTorch.
std::string first_line(const std::exception& error);

}  // namespace cpprun
