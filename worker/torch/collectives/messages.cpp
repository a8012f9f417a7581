// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/messages.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/group/failure.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

void require_other(int rank, const ProcessGroup& group, const char* operation, const char* role) {
  require_rank(rank, group, operation, role);
  if (rank != group.rank()) return;
  throw DistributedError(
      fmt::format("{}: rank {} cannot be its own {}", operation, group.rank(), role));
}

void require_tag(int tag, const char* operation) {
  if (tag >= 0) return;
  throw DistributedError(fmt::format("{}: tag {} must not be negative", operation, tag));
}

// gloo would limit a message by the timeout of connecting, which is that of joining. Over nccl a
// timeout would make the host wait.
std::optional<std::chrono::milliseconds> limit_of(const at::Tensor& tensor,
                                                  const ProcessGroup& group) {
  return tensor.is_cuda() ? std::nullopt : std::optional(group.parts().timeout);
}

}  // namespace

Work isend(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag) {
  require_dense(tensor, "send");
  require_other(destination, group, "send", "destination");
  require_tag(tag, "send");
  std::vector<at::Tensor> tensors = {tensor.detach()};
  auto native = group.native()->send(tensors, destination, tag);
  return Work(std::move(native), {.name = fmt::format("send to rank {}", destination),
                                  .inputs = tensors,
                                  .outputs = {},
                                  .timeout = limit_of(tensor, group)});
}

Work irecv(at::Tensor tensor, int source, const ProcessGroup& group, int tag) {
  require_dense(tensor, "recv");
  require_tag(tag, "recv");
  std::vector<at::Tensor> tensors = {tensor.detach()};
  // The sender is known after the receive: Work::source_rank().
  if (source == any_source) {
    auto native = group.native()->recvAnysource(tensors, tag);
    return Work(std::move(native), {.name = "recv from any rank",
                                    .inputs = {},
                                    .outputs = tensors,
                                    .timeout = limit_of(tensor, group)});
  }
  require_other(source, group, "recv", "source");
  auto native = group.native()->recv(tensors, source, tag);
  return Work(std::move(native), {.name = fmt::format("recv from rank {}", source),
                                  .inputs = {},
                                  .outputs = tensors,
                                  .timeout = limit_of(tensor, group)});
}

void send(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag) {
  isend(tensor, destination, group, tag).wait();
}

int recv(at::Tensor tensor, int source, const ProcessGroup& group, int tag) {
  Work work = irecv(std::move(tensor), source, group, tag);
  work.wait();
  return source == any_source ? work.source_rank() : source;
}

}  // namespace cpprun
