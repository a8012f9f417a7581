// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/comm_hook.h"

#include "worker/torch/collectives/collectives.h"

namespace cpprun {
namespace {

Work compress(const GradientBucket& bucket, const ProcessGroup& group, at::ScalarType type) {
  // Divides first: a sum of half-precision numbers may overflow where their average does not.
  const at::Tensor small = bucket.buffer.to(type).div_(group.size());
  return all_reduce_async(small, group).then([buffer = bucket.buffer, small] {
    buffer.copy_(small);
    return std::vector<at::Tensor>{buffer};
  });
}

}  // namespace

Work allreduce_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  bucket.buffer.div_(group.size());
  return all_reduce_async(bucket.buffer, group);
}

Work fp16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  return compress(bucket, group, at::kHalf);
}

Work bf16_compress_hook(const GradientBucket& bucket, const ProcessGroup& group) {
  return compress(bucket, group, at::kBFloat16);
}

}  // namespace cpprun
