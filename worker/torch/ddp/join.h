// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Training when ranks have different numbers of batches: a rank without further batches takes part
// in the collectives of the others until all have finished. The protocol is that of
// torch.distributed.algorithms.Join, so a group may contain Python ranks that use it.
//
//   cpprun::Join join(ddp);             // or join(ddp, optimizer) with ZeroRedundancyOptimizer
//   while (auto batch = loader.next()) { … ddp.forward(…) … backward() … optimizer.step(); }
//   join.finish();                      // returns when every rank has called it
//
// Afterwards all ranks have the model of the rank that finished last. The states of their
// optimizers differ, as in Python: save those of rank 0 only if it is such a rank, or use
// ZeroRedundancyOptimizer.

#include <ATen/core/Tensor.h>

#include <concepts>
#include <vector>

#include "worker/torch/group/process_group.h"

namespace c10d {
class Work;
}  // namespace c10d

namespace cpprun {

struct JoinOptions {
  // As soon as one rank has no further batches, every rank throws DistributedError: the one in
  // finish(), the others in their next step.
  bool throw_on_early_termination = false;
  // Divides gradients by the size of the group; otherwise by the number of ranks that still have
  // batches.
  bool divide_by_initial_world_size = true;
};

// What takes part in a Join: DistributedDataParallel and ZeroRedundancyOptimizer.
class Joinable {
 public:
  virtual ~Joinable() = default;

 protected:
  // All joinables of one Join have the same group.
  virtual const ProcessGroup& join_group() const = 0;
  virtual c10::Device join_device() const = 0;
  // The collectives of one step, on a rank that has finished.
  virtual void shadow_step() = 0;
  // After every rank has finished. `last`: this rank is one of those that finished last.
  virtual void after_join(bool last) = 0;

  // Absent outside of a Join.
  const JoinOptions* join_options() const { return joined_; }
  // Before each step: tells the ranks that have finished that this one has not. Returns the
  // operation that counts those ranks; null if another joinable does it, or outside of a Join.
  c10::intrusive_ptr<c10d::Work> notify_join();

 private:
  friend class Join;
  const JoinOptions* joined_ = nullptr;
  bool notifies_ = false;
};

template <class Part>
concept HasJoinable = requires(Part& part) {
  { part.joinable() } -> std::same_as<Joinable&>;
};

class Join {
 public:
  // One object for each part of the training that has collectives: DistributedDataParallel first.
  // They must outlive the Join. Throws DistributedError if their groups differ.
  template <HasJoinable... Parts>
  explicit Join(Parts&... parts) : Join(JoinOptions(), parts...) {}
  template <HasJoinable... Parts>
  explicit Join(const JoinOptions& options, Parts&... parts)
      : Join(std::vector<Joinable*>{&parts.joinable()...}, options) {}
  Join(std::vector<Joinable*> joinables, const JoinOptions& options);
  // Ends the mode on this rank. Without finish(), which is right only if an error ends the
  // training, the others wait for this rank.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Every rank must call it when it has no further batches. Throws DistributedError if a peer is
  // gone, or under throw_on_early_termination.
  void finish();

 private:
  int ranks_with_batches() const;

  std::vector<Joinable*> joinables_;
  JoinOptions options_;
};

}  // namespace cpprun
