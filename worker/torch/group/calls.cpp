// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

void require_dense(const at::Tensor& tensor, const char* operation) {
  if (!tensor.defined()) {
    throw DistributedError(fmt::format("{}: the tensor is undefined", operation));
  }
  if (!tensor.is_contiguous()) {
    throw DistributedError(fmt::format(
        "{}: the tensor is not contiguous: make it so first (x = x.contiguous())", operation));
  }
}

void require_rank(int rank, const ProcessGroup& group, const char* operation, const char* role) {
  if (rank >= 0 && rank < group.size()) return;
  throw DistributedError(
      fmt::format("{}: {} {} is no rank of a group of {}", operation, role, rank, group.size()));
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "),
                     c10::DeviceTypeName(tensor.device().type(), true));
}

void agree_on_text(const ProcessGroup& group, const std::string& call) {
  group.check()->agree(call, group.parts().family->steps);
}

}  // namespace cpprun
