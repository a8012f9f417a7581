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
// In between, each backward must be followed by one step of the optimizer, and there may be no
// other collective: no SyncBatchNorm, no second forward before a backward. Afterwards all ranks
// have the model of the rank that finished last, but other optimizers than ZeroRedundancyOptimizer,
// and a GradScaler, have another state on ranks that finished early: create them anew before you
// train on. A rank that has finished steps its share of a ZeroRedundancyOptimizer with its own
// learning rate, and without clipping. Python ranks stay in this mode after the `with` block: end
// their training.

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
  Joinable() = default;
  virtual ~Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;

 protected:
  // All joinables of one Join have the same group.
  virtual const ProcessGroup& join_group() const = 0;
  virtual c10::Device join_device() const = 0;
  // The same group, with errors of this library.
  virtual const c10::intrusive_ptr<c10d::ProcessGroup>& join_native() const = 0;
  // Throws DistributedError if this object cannot take part, or not as the first one.
  virtual void check_join(const JoinOptions& options, bool first) const = 0;
  // The collectives of one step, on a rank that has finished. Returns false if the step reduces no
  // gradients; then the other objects have no collectives either.
  virtual bool shadow_step() = 0;
  // After every rank has finished. `last`: this rank is one of those that finished last.
  virtual void after_join(bool last) = 0;

  // The number of ranks, all of which call it, that pass true. On the device of the tensors.
  at::Tensor count_ranks(bool mine) const;

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
  // They must outlive the Join. Throws DistributedError if their groups differ, in the debug mode
  // of the collectives, for parameters with sparse gradients, and for a comm_hook without
  // divide_by_initial_world_size.
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
  void end();

  std::vector<Joinable*> joinables_;
  JoinOptions options_;
};

}  // namespace cpprun
