// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/spawn_plan.h"

#include <fmt/format.h>

#include <cstddef>
#include <numeric>

#include "proto/worker_contract.h"

namespace cpprun {
namespace {

Result<void> check(const SpawnPlan& plan, const Environment& own) {
  if (const auto rank = own.find(std::string(contract::rank)); rank != own.end()) {
    return failure(fmt::format(
        "cannot start workers: this process is already rank {} of a job; omit --spawn under cpprun "
        "or torchrun, or start the program without a launcher",
        rank->second));
  }
  const auto nodes = static_cast<int>(plan.workers_of_node.size());
  if (plan.node < 0 || plan.node >= nodes) {
    return failure(fmt::format("node index {} is out of range: the {} nodes are numbered 0 to {}",
                               plan.node, nodes, nodes - 1));
  }
  for (const int workers : plan.workers_of_node) {
    if (workers < 1)
      return failure(fmt::format("each node needs at least 1 worker, not {}", workers));
  }
  return {};
}

}  // namespace

Result<std::vector<Environment>> spawned_environments(const SpawnPlan& plan,
                                                      const Environment& own) {
  if (const auto checked = check(plan, own); !checked) return failure(checked.error().reason);
  const auto& workers = plan.workers_of_node;
  const auto here = workers.begin() + plan.node;
  const int base = std::accumulate(workers.begin(), here, 0);
  const int world = std::accumulate(workers.begin(), workers.end(), 0);
  std::vector<Environment> environments;
  for (int local_rank = 0; local_rank < *here; ++local_rank) {
    Environment variables = own;
    const auto put = [&variables](std::string_view name, const std::string& value) {
      variables[std::string(name)] = value;
    };
    put(contract::rank, std::to_string(base + local_rank));
    put(contract::local_rank, std::to_string(local_rank));
    put(contract::world_size, std::to_string(world));
    put(contract::local_world_size, std::to_string(*here));
    put(contract::group_rank, std::to_string(plan.node));
    put(contract::group_world_size, std::to_string(workers.size()));
    put(contract::master_addr, plan.master_address);
    put(contract::master_port, std::to_string(plan.master_port));
    environments.push_back(std::move(variables));
  }
  return environments;
}

}  // namespace cpprun
