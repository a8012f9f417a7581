// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/endpoint.h"
#include "launcher/plan/cpu_list.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/plan.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

// Read by CUDA and the collectives, and no place for a password: all else that a shell exports is
// kept back, whatever it is.
constexpr std::array<std::string_view, 4> shown_prefixes = {"NCCL_", "GLOO_", "TORCH_NCCL_",
                                                            "TORCH_DISTRIBUTED_"};
constexpr std::array<std::string_view, 4> shown_names = {
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TP_SOCKET_IFNAME"};

bool is_shown(std::string_view name) {
  return std::ranges::find(shown_names, name) != shown_names.end() ||
         std::ranges::any_of(shown_prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

std::string meeting_text(const Config& config) {
  if (config.etcd) return "etcd";
  switch (config.rendezvous) {
    case RendezvousMode::standalone:
      return "standalone";
    case RendezvousMode::fixed_master:
      return "static";
    case RendezvousMode::endpoint:
      return "c10d";
  }
  return {};
}

std::string hosting_text(const Config& config, Hosting hosting) {
  if (config.etcd) return "here, if etcd says so";
  switch (hosting) {
    case Hosting::must:
      return "here";
    case Hosting::may:
      return "here, if it is the first to come";
    case Hosting::never:
      return "elsewhere";
  }
  return {};
}

// The variable, where it is not known for some worker.
bool is_open(const Preview& preview, std::string_view name) {
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      const auto at = worker.variables.find(name);
      if (at != worker.variables.end() && !at->second) return true;
    }
  }
  return false;
}

const char* why_no_port(const Preview& preview) {
  if (preview.store == "local") {
    return "a port of the node itself (--store=local), taken at the start";
  }
  if (!preview.etcd.empty()) return "the node that hosts the job, as etcd says, takes a free one";
  if (!preview.places.empty()) return "the cpprund that leads has one for each job";
  return "a free port is taken at the start";
}

// What is known of the round before there is one.
class Previewer {
 public:
  Previewer(const Config& config, const ResolvedProgram& program, const PreviewFacts& facts)
      : config_(config), program_(program), facts_(facts) {}

  Result<Preview> make() {
    if (!address().empty()) {
      auto sockets =
          choose_interfaces(facts_.interfaces, address(), is_alone(), facts_.environment);
      if (!sockets) return tl::unexpected(sockets.error());
      sockets_ = *std::move(sockets);
    }
    Preview preview{.version = facts_.version,
                    .job = config_.job,
                    .meeting = meeting_text(config_),
                    .master_host = config_.meets_at_a_set() ? "" : config_.endpoint.host,
                    .nodes_min = config_.nodes_min,
                    .nodes_max = config_.nodes_max,
                    .store = config_.store == StoreWay::local ? "local" : "direct",
                    .has_secret = facts_.has_secret,
                    .log_folder = config_.logs.root.value_or("")};
    if (config_.endpoint.port != 0 && !config_.meets_at_a_set()) {
      preview.master_port = config_.endpoint.port;
    }
    for (const Endpoint& each : config_.places) preview.places.push_back(to_string(each));
    if (config_.etcd) {
      for (const auto member : split(config_.etcd->endpoints, ','))
        preview.etcd.emplace_back(member);
    }
    preview.nodes.push_back(node());
    return preview;
  }

 private:
  bool is_alone() const { return config_.nodes_max == 1; }
  bool is_fixed() const { return config_.nodes_min == config_.nodes_max; }
  // Then a node that names its rank has this one.
  bool is_placed() const { return is_alone() || (is_fixed() && config_.node_rank); }
  bool is_first() const { return is_alone() || (is_placed() && *config_.node_rank == 0); }
  // The way to the others is found when they are here.
  bool is_interface_open() const {
    return !is_alone() && !config_.local_addr && is_loopback(address());
  }
  bool is_local_store() const { return config_.store == StoreWay::local; }

  std::string address() const {
    if (config_.local_addr) return *config_.local_addr;
    return is_alone() ? "127.0.0.1" : facts_.local_address;
  }

  int group_rank() const { return is_placed() ? config_.node_rank.value_or(0) : 0; }

  PreviewNode node() const {
    PreviewNode node{.host = facts_.host,
                     .address = address(),
                     .hosting = hosting_text(config_, facts_.hosting),
                     .folder = facts_.folder,
                     .interpreter = program_.interpreter,
                     .gpus = facts_.devices,
                     .gpus_there = std::max(gpus_there(facts_.gpus), facts_.devices),
                     .role = config_.role};
    if (is_placed()) node.group_rank = group_rank();
    if (!is_interface_open()) node.interface = sockets_.said;
    for (const auto& [name, value] : facts_.environment) {
      if (is_shown(name)) node.inherited[name] = value;
    }
    node.notes = config_.notes;
    if (const auto doubt = doubt_of_master(config_, facts_.master_addresses, facts_.interfaces);
        doubt && facts_.hosting == Hosting::must && !config_.is_host) {
      node.notes.push_back(doubt->sentence);
    }
    if (const auto note = threads_note(config_, facts_.environment)) node.notes.push_back(*note);
    add_workers(node);
    return node;
  }

  void add_workers(PreviewNode& node) const {
    // Of the parts that are not known any value will do: they are taken out again below.
    const link::Sealed round{.round = RoundNumber{1},
                             .group_rank = GroupRank{group_rank()},
                             .group_world_size = config_.nodes_max,
                             .world_size = config_.local_world_size,
                             .role_world_size = config_.local_world_size,
                             .store_port = config_.endpoint.port};
    const NodeFacts facts{.environment = facts_.environment,
                          .host = facts_.host,
                          .node_token = {},
                          .master_host = config_.endpoint.host,
                          .local_store_port = is_local_store() ? 1 : 0,
                          .sockets = sockets_,
                          .cpus = facts_.cpus,
                          .run_folder = {},
                          .error_folder = {}};
    for (auto& spec : make_plan(config_, round, program_, facts)) {
      PreviewWorker worker{.local_rank = spec.local_rank.value,
                           .rank = {},
                           .command = std::move(spec.argv),
                           .variables = {},
                           .gpu = gpu_of(spec),
                           .cpus = to_cpu_list(spec.cpus)};
      if (is_first()) worker.rank = spec.rank.value;
      worker.variables.insert(spec.variables.begin(), spec.variables.end());
      take_out_unknown(worker.variables);
      node.workers.push_back(std::move(worker));
    }
  }

  std::string gpu_of(const WorkerSpec& spec) const {
    if (const auto* own = find_variable(spec.variables, contract::cuda_visible_devices)) {
      return facts_.devices > 0 ? *own : "";
    }
    const auto place = static_cast<std::size_t>(spec.local_rank.value);
    if (spec.local_rank.value >= facts_.devices) return {};
    const auto* visible = find_variable(facts_.environment, contract::cuda_visible_devices);
    const auto entries =
        visible == nullptr ? std::vector<std::string_view>{} : split(*visible, ',');
    return place < entries.size() ? std::string(trimmed(entries[place])) : std::to_string(place);
  }

  void take_out_unknown(PreviewVariables& variables) const {
    using namespace contract;
    forget(variables, {node_token});
    if (!config_.logs.disabled) forget(variables, {error_file});
    variables[std::string(heartbeat_variable)] = std::nullopt;
    if (is_local_store() || config_.endpoint.port == 0) forget(variables, {master_port});
    if (config_.meets_at_a_set()) {
      forget(variables, {real_master_addr});
      if (!is_local_store()) forget(variables, {master_addr, master_port});
    }
    if (config_.job.empty()) forget(variables, {run_id});
    if (!config_.restart_state_file.empty()) forget(variables, {restart_count});
    if (!is_alone()) forget(variables, {world_size, role_world_size});
    if (!is_first()) forget(variables, {rank, role_rank});
    if (!is_placed()) forget(variables, {contract::group_rank});
    if (!is_fixed()) forget(variables, {group_world_size});
    if (address().empty()) {
      for (const auto name : {gloo_socket_ifname, tp_socket_ifname, nccl_socket_ifname}) {
        if (find_variable(facts_.environment, name) == nullptr) variables[std::string(name)];
      }
    } else if (is_interface_open()) {
      forget(variables, {gloo_socket_ifname, tp_socket_ifname, nccl_socket_ifname});
    }
  }

  const Config& config_;
  const ResolvedProgram& program_;
  const PreviewFacts& facts_;
  SocketInterfaces sockets_;
};

}  // namespace

void forget(PreviewVariables& variables, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (const auto at = variables.find(name); at != variables.end()) at->second.reset();
  }
}

std::vector<Unknown> unknowns_of(const Preview& preview) {
  using namespace contract;
  std::vector<Unknown> unknowns;
  // Those of the names that are open, in one line.
  const auto add = [&](std::initializer_list<std::string_view> names, const char* why) {
    std::string what;
    for (const auto name : names) {
      if (is_open(preview, name)) what.append(what.empty() ? "" : ", ").append(name);
    }
    if (!what.empty()) unknowns.push_back({what, why});
  };
  add({run_id}, "the job's id is made up at the start");
  add({restart_count}, "--restart-state goes on where the last run has ended");
  if (!preview.places.empty()) {
    add({real_master_addr, master_addr}, "that of the cpprund that leads when the nodes have met");
  }
  if (!preview.etcd.empty()) {
    add({real_master_addr, master_addr}, "that of the node that hosts the job, as etcd says");
  }
  add({master_port}, why_no_port(preview));
  add({group_rank}, "nodes get their places when they meet");
  add({rank, role_rank}, "they begin behind the workers of the nodes before");
  add({world_size, role_world_size}, "the other nodes say how many workers they have");
  add({group_world_size}, "known when the nodes that are needed are here");
  add({gloo_socket_ifname, tp_socket_ifname, nccl_socket_ifname},
      "the master's name leads nowhere yet, or to this machine itself; the way to the others is "
      "found when they come");
  add({node_token, error_file, heartbeat_variable}, "made at the start");
  return unknowns;
}

Result<Preview> preview_of(const Config& config, const ResolvedProgram& program,
                           const PreviewFacts& facts) {
  return Previewer(config, program, facts).make();
}

}  // namespace cpprun
