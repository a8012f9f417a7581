// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "worker/torch/group/device.h"
#include "worker/torch/group/mpi_backend.h"
#include "worker/torch/group/nccl_backend.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

void require_ranks(const std::vector<int>& ranks, int world_size) {
  const auto fail = [&ranks](const std::string& why) {
    throw DistributedError(fmt::format("new_group({}): {}", fmt::join(ranks, ", "), why));
  };
  if (ranks.empty()) fail("a group needs at least one rank");
  if (ranks.front() < 0 || ranks.back() >= world_size) {
    fail(fmt::format("ranks are from 0 to {}", world_size - 1));
  }
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) fail("a rank is named twice");
}

}  // namespace

std::optional<ProcessGroup> new_group(const ProcessGroup& everybody, std::vector<int> ranks,
                                      const NewGroupOptions& options) {
  std::sort(ranks.begin(), ranks.end());
  require_ranks(ranks, everybody.size());
  const ProcessGroup::Parts& world = everybody.parts();
  GroupFamily& family = *world.family;
  if (world.name != "0") {
    throw DistributedError(fmt::format(
        "new_group takes the group that init_process_group made, and ranks of that; this is its "
        "sub-group {}",
        world.name));
  }
  BackendMap backends = family.backends;
  if (!options.backend.empty()) {
    const auto parsed = parse_backend(options.backend, {.nccl = nccl_built(), .mpi = mpi_built()});
    if (!parsed) throw DistributedError(parsed.error().reason);
    backends = *parsed;
  }
  // Counted by everybody, members or not: the name is the place where the members meet.
  Connection connection{.parent = world.numbered,
                        .name = fmt::format("{}", family.groups_made++),
                        .global_ranks = ranks,
                        .rank = 0};
  const auto mine = std::find(ranks.begin(), ranks.end(), everybody.rank());
  if (mine == ranks.end()) return std::nullopt;
  connection.rank = static_cast<int>(mine - ranks.begin());
  const bool nccl = std::any_of(backends.begin(), backends.end(), [](const DeviceCarrier& each) {
    return each.carrier == Carrier::nccl;
  });
  // The group everybody is in may have needed no GPU.
  if (nccl && !family.device.is_cuda()) family.device = bind_cuda_device(family.context);
  ProcessGroupOptions group_options = family.options;
  if (options.timeout) group_options.timeout = *options.timeout;
  auto parts = std::make_shared<ProcessGroup::Parts>();
  parts->store = world.store;
  parts->family = world.family;
  try {
    connect(*parts, connection, backends, group_options);
  } catch (const std::exception& error) {
    throw DistributedError(fmt::format(
        "rank {} cannot join the new group of ranks {}: {} (every rank has to call new_group, in "
        "the same order)",
        everybody.rank(), fmt::join(ranks, ", "), first_line(error)));
  }
  return ProcessGroup(std::move(parts));
}

}  // namespace cpprun
