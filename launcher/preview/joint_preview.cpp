// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/joint_preview.h"

#include <iterator>
#include <map>
#include <utility>

#include "proto/worker_contract.h"

namespace cpprun {

namespace {

void tell(PreviewVariables& variables, std::string_view name, int value) {
  variables[std::string(name)] = std::to_string(value);
}

// The whole round is here: what the coordinator would say of it can be counted.
void number_workers(Preview& preview) {
  int world = 0;
  std::map<std::string, int> roles;
  for (const auto& node : preview.nodes) {
    world += static_cast<int>(node.workers.size());
    roles[node.role] += static_cast<int>(node.workers.size());
  }
  int next = 0;
  std::map<std::string, int> next_of_role;
  for (auto& node : preview.nodes) {
    for (auto& worker : node.workers) {
      worker.rank = next++;
      tell(worker.variables, contract::rank, *worker.rank);
      tell(worker.variables, contract::role_rank, next_of_role[node.role]++);
      tell(worker.variables, contract::world_size, world);
      tell(worker.variables, contract::role_world_size, roles[node.role]);
    }
  }
}

void forget_port(Preview& preview) {
  preview.master_port.reset();
  for (auto& node : preview.nodes) {
    for (auto& worker : node.workers) forget(worker.variables, {contract::master_port});
  }
}

}  // namespace

Preview joint_preview(std::vector<HostPreview> hosts, bool is_port_given) {
  Preview joint = std::move(hosts.front().preview);
  joint.nodes.front().name = hosts.front().name;
  for (auto host = std::next(hosts.begin()); host != hosts.end(); ++host) {
    for (auto& node : host->preview.nodes) {
      node.name = host->name;
      joint.nodes.push_back(std::move(node));
    }
  }
  const auto count = static_cast<int>(joint.nodes.size());
  if (joint.nodes_min == joint.nodes_max && count == joint.nodes_max) number_workers(joint);
  if (!is_port_given && joint.nodes_max > 1) forget_port(joint);
  return joint;
}

}  // namespace cpprun
