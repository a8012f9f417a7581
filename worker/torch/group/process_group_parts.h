// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a ProcessGroup is made of, for the files that belong to it.

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

// What a group and the groups made out of it have in common.
struct GroupFamily {
  Context context;
  BackendMap backends;
  ProcessGroupOptions options;
  c10::Device device = c10::Device(c10::kCPU);  // the GPU, where a backend nccl needs one
  int groups_made = 0;                          // Python's count, from which names are made
  // Synchronised steps of DistributedDataParallel that this rank has begun, over all its groups:
  // when ranks part, who has fewer is the one that ran out of batches.
  std::atomic<std::int64_t> steps = 0;
};

// Invariant: either all members are set, or the group was left and none is.
struct ProcessGroup::Parts {
  c10::intrusive_ptr<c10d::Store> store;     // without the prefixes of the group
  c10::intrusive_ptr<c10d::Store> numbered;  // the prefix under which this group's keys lie
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string name;
  std::chrono::milliseconds timeout{};  // of one operation
  std::vector<int> global_ranks;
  std::shared_ptr<GroupFamily> family;
  std::unique_ptr<CollectiveCheck> check;
  std::shared_ptr<StallWatch> stalls;  // none in a group of one; works under way have it, too
  bool hosts_store = false;
  // Whoever has joined knows that everybody has: gloo connects all to all at once, unless it is
  // told to be lazy, over mpi all meet, and nccl connects when it is first used.
  bool met_by_joining = false;
  std::int64_t ranks_that_say_good_bye = 0;
};

struct Connection {
  c10::intrusive_ptr<c10d::Store> parent;  // where the group's own prefix goes
  std::string name;
  std::vector<int> global_ranks;
  int rank = 0;  // in the group
};

// Connects to the other members. Fills in all but what belongs to the store.
void connect(ProcessGroup::Parts& parts, const Connection& connection, const BackendMap& backends,
             const ProcessGroupOptions& options);

// Whether every member runs this library; then all agree on it. All have to have arrived.
bool all_cpp(const ProcessGroup& group);

// What is known of the others when that operation failed of `cause`. A peer has ended: which
// members have left in order, after how many steps; time was up: what they wait in. Empty, or a
// clause that follows the sentence of the failure.
std::string departures(const ProcessGroup& group, const std::string& operation,
                       const std::string& cause);

// The lines of an exception after its first are a back-trace of LibTorch's own inside.
std::string first_line(const std::exception& error);

}  // namespace cpprun
