// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The part of DistributedDataParallel that does not depend on the module's type, with its options
// and communication hooks.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/torch/ddp/join.h"
#include "worker/torch/group/guarded_group.h"
#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace c10d {
class Reducer;
}  // namespace c10d
namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace cpprun {

// The tensors of a module in the order of torch.nn.parallel.DistributedDataParallel: by module,
// trained or not, each once even if it is registered twice. Python ranks of a mixed group use the
// same order, and tensors are exchanged without names.

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // The gradient is sparse: the weight of an Embedding or EmbeddingBag with the option sparse.
  bool sparse = false;
};

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

// One line for each tensor, with all that must be equal on all ranks.
std::vector<std::string> describe_model(const std::vector<NamedTensor>& parameters,
                                        const std::vector<NamedTensor>& buffers);

// Hooks into DistributedDataParallel: how a bucket of gradients is exchanged between the ranks.
// Names and arithmetic are those of torch.distributed.algorithms.ddp_comm_hooks.
//
//   cpprun::DdpOptions options{.comm_hook = cpprun::bf16_compress_hook};

struct GradientBucket {
  at::Tensor buffer;  // all gradients of the bucket, concatenated
  std::size_t index = 0;
  bool last = false;  // of this backward
  std::vector<at::Tensor> parameters;
};

// Starts the exchange. Its first output is the resulting gradients, of the buffer's length. A hook
// must not depend on its rank: all ranks must call the same operations.
using CommHook = std::function<Work(const GradientBucket&, const ProcessGroup&)>;

// The average over all ranks, as without a hook.
Work allreduce_hook(const GradientBucket& bucket, const ProcessGroup& group);

// The average with half the bytes sent. bf16 keeps float's range but has fewer digits.
Work fp16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group);
Work bf16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group);

// Names, meanings and defaults are those of torch.nn.parallel.DistributedDataParallel.
struct DdpOptions {
  // Absent: 25 MiB, with a first bucket of 1 MiB so that reducing starts early.
  std::optional<double> bucket_cap_mb;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  bool static_graph = false;
  // Replaces the averaging of each bucket.
  CommHook comm_hook;
};

// The group may be moved during its lifetime. After the group is left, operations between ranks
// throw. All failures between ranks, in backward too, are DistributedErrors.
class DdpCore : public Joinable {
 public:
  DdpCore(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
          const std::string& module_name, const ProcessGroup& group, const DdpOptions& options);
  ~DdpCore() override;
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  // Prepares for the backward of these outputs. May replace them by outputs of an additional node.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  void zero_grad(bool set_to_none);

  bool syncs() const { return syncs_; }
  void set_syncs(bool syncs) { syncs_ = syncs; }

 protected:
  const ProcessGroup& join_group() const override { return group_; }
  c10::Device join_device() const override { return parameters_.front().device(); }
  const c10::intrusive_ptr<c10d::ProcessGroup>& join_native() const override { return native_; }
  void check_join(const JoinOptions& options, bool first) const override;
  bool shadow_step() override;
  void after_join(bool last) override;

 private:
  struct Reduction;

  void require_same_model(const std::vector<NamedTensor>& parameters,
                          const std::vector<NamedTensor>& buffers) const;
  void broadcast_state(int source);
  bool broadcasts_buffers() const;
  // Of the ranks where `candidate` is true, the highest.
  int common_rank(bool candidate) const;
  void broadcast_buffers(int source);
  // Returns the gradients, as long as parameters_.
  std::vector<at::Tensor> reduce_zeros();
  void build_reducer(const std::vector<NamedTensor>& trained);
  void register_hook();
  void pass_through_sink(const std::vector<at::Tensor*>& outputs);
  // Calls the reducer. Its error about parameters without a gradient has only their numbers; this
  // one has their names.
  void reduce(const std::function<void(c10d::Reducer&)>& call) const;
  // Returns `step 3 of DistributedDataParallel(Net)`. May outlive the wrapper in the graph.
  Caller caller() const;

  ProcessGroup group_;  // an alias
  std::string name_;    // of the module
  std::shared_ptr<std::atomic<std::int64_t>> step_;
  c10::intrusive_ptr<c10d::ProcessGroup> native_;
  std::vector<at::Tensor> parameters_;  // the trained ones
  std::vector<std::string> names_;      // of parameters_
  std::vector<at::Tensor> all_parameters_;
  bool has_sparse_gradients_ = false;
  std::vector<at::Tensor> buffers_;
  DdpOptions options_;
  bool syncs_ = true;
  // As in Python: a forward synchronises the buffers only if the previous one did.
  bool buffers_due_ = true;
  std::unique_ptr<Reduction> reduction_;
};

// Gradients accumulate locally during its lifetime. It may outlive neither the core nor an outer
// NoSync of the same core.
class NoSync {
 public:
  explicit NoSync(DdpCore& core) : core_(&core), before_(core.syncs()) { core.set_syncs(false); }
  ~NoSync() {
    if (core_ != nullptr) core_->set_syncs(before_);
  }
  NoSync(NoSync&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), before_(other.before_) {}
  NoSync& operator=(NoSync&&) = delete;

 private:
  DdpCore* core_;  // null after a move
  bool before_;
};

}  // namespace cpprun
