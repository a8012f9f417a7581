// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Hooks into DistributedDataParallel: how a bucket of gradients is exchanged between the ranks.
// Names and arithmetic are those of torch.distributed.algorithms.ddp_comm_hooks.
//
//   cpprun::DdpOptions options{.comm_hook = cpprun::bf16_compress_hook};

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

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

}  // namespace cpprun
