// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Batch normalisation over the batches of all ranks, on any device that the group carries. Python's
// works on GPUs only; this one is made of ordinary tensor operations.

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <ostream>

#include "worker/torch/group/process_group.h"

namespace cpprun {

struct SyncState;

// What a batch normalisation keeps; those that its options rule out are undefined.
struct BatchNormTensors {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;
};

// Without a group, or in one of a single rank, or in evaluation, this is plain batch normalisation;
// parameters and buffers have its names. Inputs have two dimensions or more, the second of which
// are the features.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted);
  explicit SyncBatchNormImpl(std::int64_t num_features);
  // With another module's tensors: they stay the same objects, for optimizers that know them.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& wanted, const BatchNormTensors& tensors);
  ~SyncBatchNormImpl() override;
  SyncBatchNormImpl(const SyncBatchNormImpl&) = default;
  SyncBatchNormImpl& operator=(const SyncBatchNormImpl&) = default;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  at::Tensor forward(const at::Tensor& input);

  // From now on statistics are those of all ranks of `group`.
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

// Replaces every BatchNorm1d, 2d and 3d in the Sequentials and ModuleLists of `module` by one that
// is synchronised over `group`, and gives existing SyncBatchNorms that group. A BatchNorm that is a
// member of a struct cannot be replaced in C++, because the member has its type: that is a
// DistributedError that names it; declare such a member as SyncBatchNorm.
void convert_sync_batchnorm(torch::nn::Module& module, const ProcessGroup& group);

}  // namespace cpprun
