// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/zero_redundancy_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "worker/torch/collectives/messages.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/group/bounds.h"
#include "worker/torch/group/guarded_group.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

// As in Python: the largest parameter of a group first, each for the rank with the fewest elements
// so far, over all groups.
std::vector<int> owners_of(const std::vector<std::vector<at::Tensor>>& groups, int ranks) {
  std::vector<int> owners;
  std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks));
  for (const auto& group : groups) {
    const std::size_t first = owners.size();
    owners.resize(first + group.size());
    std::vector<std::size_t> order(group.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&group](std::size_t a, std::size_t b) {
      return group[a].numel() > group[b].numel();
    });
    for (const std::size_t each : order) {
      const auto least = std::min_element(elements.begin(), elements.end());
      owners[first + each] = static_cast<int>(least - elements.begin());
      *least += group[each].numel();
    }
  }
  return owners;
}

// In slices: a backend may need a buffer of the same size, or the bytes on its GPU.
std::vector<at::Tensor> slices_of(const at::Tensor& bytes) {
  return bytes.numel() == 0 ? std::vector<at::Tensor>()
                            : bytes.split(bounds::checkpoint_broadcast_bytes);
}

void send_state(const StateDict& state, int destination, const ProcessGroup& group) {
  const SafetensorsBytes bytes = to_safetensors(state);
  send_object(bytes.head, destination, group);
  send_object(bytes.data.numel(), destination, group);
  for (const at::Tensor& slice : slices_of(bytes.data)) {
    send(slice.to(group.device()), destination, group);
  }
}

StateDict recv_state(int source, const ProcessGroup& group) {
  SafetensorsBytes bytes{.head = recv_object<std::string>(source, group)};
  bytes.data = at::empty({recv_object<std::int64_t>(source, group)}, at::kByte);
  for (const at::Tensor& slice : slices_of(bytes.data)) {
    const at::Tensor carried = slice.to(group.device());
    recv(carried, source, group);
    if (!carried.is_same(slice)) slice.copy_(carried);
  }
  return open_safetensors(bytes, fmt::format("the optimizer's state of rank {}", source));
}

}  // namespace

ZeroShares::ZeroShares(const std::vector<std::vector<at::Tensor>>& groups,
                       const ProcessGroup& group)
    : group_(group.alias()),
      native_(guarded(group, [] { return "ZeroRedundancyOptimizer"; })),
      owners_(owners_of(groups, group.size())) {
  for (const auto& each : groups) {
    sizes_.push_back(static_cast<std::int64_t>(each.size()));
    parameters_.insert(parameters_.end(), each.begin(), each.end());
  }
  if (parameters_.empty()) {
    throw std::invalid_argument("ZeroRedundancyOptimizer needs at least one parameter");
  }
  require_each_once(parameters_);
  if (group.size() > 1 && !all_cpp(group)) {
    throw DistributedError(
        "ZeroRedundancyOptimizer: the group has Python ranks, which exchange parameters in another "
        "way: use a group of C++ ranks");
  }
}

std::vector<std::int64_t> ZeroShares::sizes_of(int rank) const {
  std::vector<std::int64_t> sizes;
  auto owner = owners_.begin();
  for (const std::int64_t size : sizes_) {
    sizes.push_back(std::count(owner, owner + size, rank));
    owner += size;
  }
  return sizes;
}

void ZeroShares::broadcast_parameters() const {
  const at::NoGradGuard no_grad;
  for (int rank = 0; rank < group_.size(); ++rank) {
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (owners_[i] == rank) tensors.push_back(parameters_[i].detach());
    }
    if (tensors.empty()) continue;
    c10d::broadcast_coalesced(native_, tensors, bounds::coalesced_broadcast_bytes, rank);
  }
}

OptimizerState ZeroShares::gathered(const OptimizerState& own) const {
  const StateDict mine = own.to_checkpoint();
  if (group_.rank() != 0) {
    send_state(mine, 0, group_);
    return {};
  }
  OptimizerState whole = own;  // for the options, which are equal on all ranks
  for (std::size_t group = 0; group < sizes_.size(); ++group) {
    whole.groups[group].parameters = sizes_[group];
  }
  whole.parameters.assign(parameters_.size(), {});
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto part = rank == 0 ? own
                                : OptimizerState::from_checkpoint(recv_state(rank, group_),
                                                                  sizes_of(rank), "the optimizer");
    std::size_t next = 0;
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] == rank) whole.parameters[i] = part.parameters[next++];
    }
  }
  return whole;
}

OptimizerState ZeroShares::own_part(const OptimizerState& whole) const {
  OptimizerState own;
  own.groups = whole.groups;
  const auto sizes = sizes_of(group_.rank());
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    own.groups[group].parameters = sizes[group];
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == group_.rank()) own.parameters.push_back(whole.parameters[i]);
  }
  return own;
}

}  // namespace cpprun
