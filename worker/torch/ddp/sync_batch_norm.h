// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Batch normalisation over the batches of all ranks, on any device that the group carries. Python's
// version supports GPUs only; this one uses ordinary tensor operations.

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <ostream>

#include "worker/torch/group/process_group.h"

namespace cpprun {

struct SyncState;

// The tensors of a batch normalisation; undefined where the options exclude them.
struct BatchNormTensors {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;
};

// Without a group, in a group of one, or in evaluation mode, it is plain batch normalisation, with
// the same names of parameters and buffers. Inputs need at least two dimensions; the second is the
// features.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted);
  explicit SyncBatchNormImpl(std::int64_t num_features);
  // Uses another module's tensors: the same objects, for optimizers that refer to them.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted, const BatchNormTensors& tensors);
  ~SyncBatchNormImpl() override;
  SyncBatchNormImpl(const SyncBatchNormImpl&) = default;
  SyncBatchNormImpl& operator=(const SyncBatchNormImpl&) = default;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  at::Tensor forward(const at::Tensor& input);

  // From now on, statistics cover all ranks of `group`.
  void set_process_group(const ProcessGroup& group);

  torch::nn::BatchNormOptions options;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;

 private:
  void keep(const BatchNormTensors& tensors);
  double momentum_now();
  at::Tensor forward_synchronised(const at::Tensor& input);

  std::shared_ptr<SyncState> sync_;
};
TORCH_MODULE(SyncBatchNorm);

// Replaces every BatchNorm1d, 2d and 3d in the Sequentials and ModuleLists of `module` by a
// SyncBatchNorm over `group`, and sets the group of existing SyncBatchNorms. C++ cannot replace a
// BatchNorm that is a struct member, because the member has that type. It then throws a
// DistributedError that names the member; declare such a member as SyncBatchNorm.
void convert_sync_batchnorm(torch::nn::Module& module, const ProcessGroup& group);

}  // namespace cpprun
