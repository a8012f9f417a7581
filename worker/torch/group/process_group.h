// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The ranks of a job that compute together. One group may hold C++ and Python ranks: the keys under
// which they find each other in the store are those of torch.distributed.
//
// In worker/torch failures throw, as everywhere in LibTorch; cpprun::run() (worker/env) turns them
// into the worker's error report.

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/env/context.h"
#include "worker/torch/group/distributed_error.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace cpprun {

class CollectiveCheck;

// Names and meanings are those of torch.distributed.init_process_group.
struct ProcessGroupOptions {
  // gloo, nccl, mpi, or one for each device: cpu:gloo,cuda:nccl. Empty: gloo, and nccl for a GPU's
  // tensors where LibTorch has CUDA and sees one. mpi carries the CPU's alone.
  std::string backend;
  // env://, tcp://host:port or file:///path, each with ?rank=…&world_size=… if nobody else says so.
  std::string init_method = "env://";
  // If they are not those of the environment.
  std::optional<int> rank;
  std::optional<int> world_size;
  // How long one collective may take before its peers are taken to be stuck. Five minutes.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long finding the store and all other ranks may take. Five minutes.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
};

// Leaving its scope leaves the group in order. During stack unwinding nothing waits: the
// connections stay until the process ends, which cpprun::run() does at once. A group that was moved
// from or left may still be asked for anything, and answers with DistributedError.
class ProcessGroup {
 public:
  struct Parts;
  explicit ProcessGroup(std::shared_ptr<Parts> parts);
  ~ProcessGroup();
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;

  int rank() const;
  int size() const;
  // `0` for the group everybody is in, then counted up as in Python.
  const std::string& name() const;
  // The members' ranks in the group everybody is in, by their rank in this one.
  const std::vector<int>& global_ranks() const;
  // Where a small tensor has to lie so that this group can carry it: the CPU if it can.
  c10::Device device() const;

  // For LibTorch's own interfaces. The store is shared by all ranks of the job.
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const;
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // Set under CPPRUN_DISTRIBUTED_DEBUG=DETAIL.
  CollectiveCheck* check() const;
  const Parts& parts() const { return live(); }

  // The same group for what may outlive this object, or while this object may be moved. The group
  // is left when the object that was joined with goes, not with an alias.
  ProcessGroup alias() const;

 private:
  Parts& live() const;
  void leave();

  std::shared_ptr<Parts> parts_;
  bool is_alias_ = false;
};

// Joins the group that launcher, environment or options describe. Every rank has to call it, once.
// Without a launcher the group has one member and needs no network. With a backend nccl the GPU of
// LOCAL_RANK becomes the current one. Throws DistributedError within options.join_timeout or little
// more.
ProcessGroup init_process_group(const Context& context, const ProcessGroupOptions& options = {});

// The same with a store of the caller's, under whatever prefix it has; init_method is ignored.
ProcessGroup init_process_group(const Context& context,
                                const c10::intrusive_ptr<c10d::Store>& store,
                                const ProcessGroupOptions& options = {});

struct NewGroupOptions {
  std::string backend;                               // empty: as the group everybody is in
  std::optional<std::chrono::milliseconds> timeout;  // of one collective; absent: likewise
};

// A group of some of the ranks, which are sorted. Every rank of `everybody`, the group that
// init_process_group() made, has to call it, in the same order as other groups; those that are not
// named get nothing.
std::optional<ProcessGroup> new_group(const ProcessGroup& everybody, std::vector<int> ranks,
                                      const NewGroupOptions& options = {});

// Leaves the group now, as the end of its scope would.
void destroy_process_group(ProcessGroup group);

}  // namespace cpprun
