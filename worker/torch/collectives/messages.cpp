// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/collectives/collectives.h"
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

// --- objects -------------------------------------------------------------------------------------

// An object is sent as two messages: its length, so that the receiver can allocate memory, and its
// bytes. An empty object is only its length.

namespace {

at::TensorOptions type(at::ScalarType kind, const ProcessGroup& group) {
  return at::TensorOptions(kind).device(group.device());
}

at::Tensor tensor_of(std::string bytes, std::int64_t length, const ProcessGroup& group) {
  bytes.resize(static_cast<std::size_t>(length));
  const at::Tensor view = at::from_blob(bytes.data(), {length}, at::kByte);
  // A copy, because the string is destroyed.
  return at::empty({length}, type(at::kByte, group)).copy_(view);
}

std::string bytes_of(const at::Tensor& tensor, std::int64_t length) {
  const at::Tensor here = tensor.cpu();
  const auto* const first = here.const_data_ptr<std::uint8_t>();
  return {first, first + length};
}

// A length from another rank must be checked before memory is allocated for it.
std::int64_t checked_length(std::int64_t length) {
  if (length >= 0 && length <= static_cast<std::int64_t>(bounds::worker_object_bytes_max)) {
    return length;
  }
  throw DistributedError(
      fmt::format("an object of {} bytes exceeds the limit of {} bytes: send a tensor instead",
                  length, bounds::worker_object_bytes_max));
}

at::Tensor length_of(const std::string& bytes, const ProcessGroup& group) {
  const auto length = checked_length(static_cast<std::int64_t>(bytes.size()));
  return at::full({1}, length, type(at::kLong, group));
}

}  // namespace

std::string broadcast_bytes(const std::string& bytes, const ProcessGroup& group, int source) {
  const at::Tensor length = length_of(bytes, group);
  broadcast(length, group, source);
  const auto count = checked_length(length.item<std::int64_t>());
  if (count == 0) return {};
  const at::Tensor content = tensor_of(bytes, count, group);
  broadcast(content, group, source);
  return bytes_of(content, count);
}

std::vector<std::string> all_gather_bytes(const std::string& bytes, const ProcessGroup& group) {
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& each : all_gather(length_of(bytes, group), group)) {
    lengths.push_back(checked_length(each.item<std::int64_t>()));
  }
  // All tensors of a collective have the same length, that of the longest.
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> all(lengths.size());
  if (longest == 0) return all;
  const auto contents = all_gather(tensor_of(bytes, longest, group), group);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank] = bytes_of(contents[rank], lengths[rank]);
  }
  return all;
}

void send_bytes(const std::string& bytes, int destination, const ProcessGroup& group, int tag) {
  send(length_of(bytes, group), destination, group, tag);
  if (bytes.empty()) return;
  send(tensor_of(bytes, static_cast<std::int64_t>(bytes.size()), group), destination, group, tag);
}

std::string recv_bytes(int source, const ProcessGroup& group, int tag) {
  const at::Tensor length = at::zeros({1}, type(at::kLong, group));
  // The length may come from any source; the bytes must then come from the same rank.
  const int sender = recv(length, source, group, tag);
  const auto count = checked_length(length.item<std::int64_t>());
  if (count == 0) return {};
  const at::Tensor content = at::empty({count}, type(at::kByte, group));
  recv(content, sender, group, tag);
  return bytes_of(content, count);
}

}  // namespace cpprun
