// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Hooks into DistributedDataParallel: what happens to a bucket of gradients on its way to the other
// ranks. Names and arithmetic are those of torch.distributed.algorithms.ddp_comm_hooks.
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
  at::Tensor buffer;  // all gradients of the bucket, one after the other
  std::size_t index = 0;
  bool last = false;  // of this backward
  std::vector<at::Tensor> parameters;
};

// Starts the work; its first output is the gradients to continue with, as long as the buffer. A
// hook must not depend on its rank: all have to call the same operations.
using CommHook = std::function<Work(const GradientBucket&, const ProcessGroup&)>;

// The average over all ranks, as without a hook.
Work allreduce_hook(const GradientBucket& bucket, const ProcessGroup& group);

// The average, half as many bytes on the wire; bf16 keeps the range and loses digits.
Work fp16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group);
Work bf16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group);

}  // namespace cpprun
