// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The ranks of a job that compute together. A group may mix C++ and Python ranks: they find each
// other in the store under the keys of torch.distributed.
//
// Functions in worker/torch throw on failure, as everywhere in LibTorch. cpprun::run() (worker/env)
// writes the exception to the worker's error report.

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
  // gloo, nccl, mpi, or one for each device: cpu:gloo,cuda:nccl. Empty: gloo, and nccl for GPU
  // tensors where LibTorch has CUDA and sees a GPU. mpi carries CPU tensors only.
  std::string backend;
  // env://, tcp://host:port or file:///path, each with ?rank=…&world_size=… if not set elsewhere.
  std::string init_method = "env://";
  // Set these to override the environment.
  std::optional<int> rank;
  std::optional<int> world_size;
  // Time limit of one collective; after it, the peers are considered stuck. Default: five minutes.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // Time limit for reaching the store and all other ranks. Default: five minutes.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
};

// The destructor leaves the group in order. During stack unwinding it does not wait: the
// connections stay open until the process ends, which cpprun::run() does at once, or until
// run_restartable() leaves the round. Every call on a group that was moved from or left throws
// DistributedError.
class ProcessGroup {
 public:
  struct Parts;
  explicit ProcessGroup(std::shared_ptr<Parts> parts);
  ~ProcessGroup();
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;

  int rank() const;
  int size() const;
  // `0` for the default group, then counted up as in Python.
  const std::string& name() const;
  // The global rank of each member, indexed by its rank in this group.
  const std::vector<int>& global_ranks() const;
  // The device of small tensors that this group has to carry: the CPU if the group supports it.
  c10::Device device() const;

  // For LibTorch's own interfaces. The store is shared by all ranks of the job.
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const;
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // Not null under CPPRUN_DISTRIBUTED_DEBUG=DETAIL.
  CollectiveCheck* check() const;
  const Parts& parts() const { return live(); }

  // A handle to the same group, for code that may outlive this object or run while it is moved.
  // Destroying an alias does not leave the group; destroying the object that joined it does.
  ProcessGroup alias() const;

 private:
  Parts& live() const;
  void leave();

  std::shared_ptr<Parts> parts_;
  bool is_alias_ = false;
};

// Joins the group that the launcher, the environment or `options` describe. Every rank must call it
// once. Without a launcher the group has one member and needs no network. With nccl, the GPU of
// index LOCAL_RANK becomes the current one. On failure, throws DistributedError within about
// options.join_timeout.
ProcessGroup init_process_group(const Context& context, const ProcessGroupOptions& options = {});

// The same with the caller's store, under any prefix the store has. init_method is ignored.
ProcessGroup init_process_group(const Context& context,
                                const c10::intrusive_ptr<c10d::Store>& store,
                                const ProcessGroupOptions& options = {});

struct NewGroupOptions {
  std::string backend;                               // empty: as in the default group
  std::optional<std::chrono::milliseconds> timeout;  // of one collective; absent: likewise
};

// Creates a group of some ranks, given in any order and sorted here. Every rank of `default_group`,
// the group of init_process_group(), must call it, in the same order as for other groups. Ranks
// that are not in `ranks` get nullopt.
std::optional<ProcessGroup> new_group(const ProcessGroup& default_group, std::vector<int> ranks,
                                      const NewGroupOptions& options = {});

// Leaves the group now, as its destructor would.
void destroy_process_group(ProcessGroup group);

}  // namespace cpprun
