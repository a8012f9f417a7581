// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "launcher/plan/devices.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/plan.h"
#include "launcher/table.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

// Variables read by CUDA and the collectives that never hold a password. No other variable is
// shown.
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
  if (config.etcd) return "here, if etcd elects this node";
  switch (hosting) {
    case Hosting::must:
      return "here";
    case Hosting::may:
      return "here, if this node is the first to connect";
    case Hosting::never:
      return "elsewhere";
  }
  return {};
}

// Whether the variable is unknown for at least one worker.
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
    return "each node chooses a free port at the start (--store=local)";
  }
  if (!preview.etcd.empty()) return "a free port of the node that is elected through etcd";
  if (!preview.places.empty()) return "the leader assigns a port to each job";
  return "a free port is chosen at the start";
}

// Predicts the round from the configuration and the facts.
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
                    .log_directory = config_.logs.root.value_or("")};
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
  // Whether the node's rank is known: in a job of fixed size a given node rank is final.
  bool is_placed() const { return is_alone() || (is_fixed() && config_.node_rank); }
  bool is_first() const { return is_alone() || (is_placed() && *config_.node_rank == 0); }
  // The route to the others is found only once they are known.
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
    PreviewNode node{.host = facts_.machine.host,
                     .address = address(),
                     .hosting = hosting_text(config_, facts_.hosting),
                     .directory = facts_.directory,
                     .interpreter = program_.interpreter,
                     .gpus = facts_.devices,
                     .gpus_there = std::max(gpus_there(facts_.machine.gpus), facts_.devices),
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
    for (const auto& finding : own_findings(facts_.machine, facts_.machine.host)) {
      node.notes.push_back(fmt::format("{}\n  hint: {}", finding.what, finding.hint));
    }
    add_workers(node);
    return node;
  }

  void add_workers(PreviewNode& node) const {
    // Unknown parts get placeholder values, which are removed again below.
    const link::Sealed round{.round = RoundNumber{1},
                             .group_rank = GroupRank{group_rank()},
                             .group_world_size = config_.nodes_max,
                             .world_size = config_.local_world_size,
                             .role_world_size = config_.local_world_size,
                             .store_port = config_.endpoint.port};
    const NodeFacts facts{.environment = facts_.environment,
                          .host = facts_.machine.host,
                          .node_token = {},
                          .master_host = config_.endpoint.host,
                          .local_store_port = is_local_store() ? 1 : 0,
                          .sockets = sockets_,
                          .cpus = facts_.cpus,
                          .run_directory = {},
                          .error_directory = {}};
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
    const auto entries = listed_devices(visible == nullptr ? "" : *visible);
    return place < entries.size() ? entries[place] : std::to_string(place);
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
  // Lists those of the names that are unknown, on one line.
  const auto add = [&](std::initializer_list<std::string_view> names, const char* why) {
    std::string what;
    for (const auto name : names) {
      if (is_open(preview, name)) what.append(what.empty() ? "" : ", ").append(name);
    }
    if (!what.empty()) unknowns.push_back({what, why});
  };
  add({run_id}, "the job ID is generated at the start");
  add({restart_count},
      "--restart-state carries over the number of restarts used by the previous run");
  if (!preview.places.empty()) {
    add({real_master_addr, master_addr},
        "the address of the leader; known once all nodes have joined");
  }
  if (!preview.etcd.empty()) {
    add({real_master_addr, master_addr}, "the address of the node that is elected through etcd");
  }
  add({master_port}, why_no_port(preview));
  add({group_rank}, "node ranks are assigned when the nodes join");
  add({rank, role_rank}, "depends on the number of workers on nodes with lower ranks");
  add({world_size, role_world_size}, "depends on the number of workers on the other nodes");
  add({group_world_size}, "known when enough nodes have joined");
  add({gloo_socket_ifname, tp_socket_ifname, nccl_socket_ifname},
      "the master's name does not resolve yet, or resolves to this machine; the interface is "
      "chosen when the other nodes join");
  add({node_token, error_file, heartbeat_variable}, "generated at the start");
  return unknowns;
}

Result<Preview> preview_of(const Config& config, const ResolvedProgram& program,
                           const PreviewFacts& facts) {
  return Previewer(config, program, facts).make();
}

namespace {

void tell(PreviewVariables& variables, std::string_view name, int value) {
  variables[std::string(name)] = std::to_string(value);
}

// All nodes are known, so the ranks that the coordinator would assign can be computed.
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

namespace {

constexpr std::string_view unknown = "?";

std::string or_unknown(const std::optional<int>& number) {
  return number ? std::to_string(*number) : std::string(unknown);
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t workers_of(const Preview& preview) {
  std::size_t count = 0;
  for (const auto& node : preview.nodes) count += node.workers.size();
  return count;
}

std::string nodes_text(const Preview& preview) {
  if (preview.nodes_min == preview.nodes_max) {
    return counted(static_cast<std::size_t>(preview.nodes_max), "node");
  }
  return fmt::format("{} to {} nodes", preview.nodes_min, preview.nodes_max);
}

std::string head(const Preview& preview) {
  const bool is_whole = preview.nodes.size() == static_cast<std::size_t>(preview.nodes_max);
  return fmt::format(
      "dry run: cpprun {} would start {} on this node{}\n", preview.version,
      counted(workers_of(preview), "worker"),
      is_whole && preview.nodes_max == 1 ? "" : ", in a job of " + nodes_text(preview));
}

std::string of_hosts(const Preview& preview) {
  return fmt::format("dry run: cpprun {} would start {} on {}\n", preview.version,
                     counted(workers_of(preview), "worker"), counted(preview.nodes.size(), "host"));
}

std::string master_text(const Preview& preview) {
  if (preview.meeting == "standalone") return "free port on this machine";
  if (!preview.places.empty()) {
    return fmt::format("leader of {}", fmt::join(preview.places, ", "));
  }
  if (!preview.etcd.empty()) {
    return fmt::format("host elected through {}", fmt::join(preview.etcd, ", "));
  }
  if (preview.master_port) return to_string(Endpoint{preview.master_host, *preview.master_port});
  return preview.master_host + ", free port";
}

std::string job_lines(const Preview& preview) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += fmt::format("  {:<10}  {}\n", name, plain_line(value));
  };
  add("job", preview.job.empty() ? "ID generated at the start" : preview.job);
  add("rendezvous", fmt::format("{}, {}", preview.meeting, master_text(preview)));
  add("store", fmt::format("{}, {}", preview.store,
                           preview.has_secret ? "with a secret" : "without a secret"));
  if (!preview.log_directory.empty()) add("logs", preview.log_directory);
  return text;
}

std::string gpus_text(const PreviewNode& node) {
  if (node.gpus == node.gpus_there) return std::to_string(node.gpus);
  return fmt::format("{} of {}", node.gpus, node.gpus_there);
}

std::string node_table(const Preview& preview) {
  Table table{.columns = {{"HOST"},
                          {"NODE", true},
                          {"ADDRESS"},
                          {"INTERFACE"},
                          {"GPUS", true},
                          {"MASTER"},
                          {"PYTHON"},
                          {"DIRECTORY"}},
              .rows = {}};
  for (const auto& node : preview.nodes) {
    table.rows.push_back({{node.name.empty() ? node.host : node.name},
                          {or_unknown(node.group_rank)},
                          {node.address.empty() ? std::string(unknown) : node.address},
                          {node.interface.empty() ? std::string(unknown) : node.interface},
                          {gpus_text(node)},
                          {node.hosting},
                          {or_dash(node.interpreter)},
                          {node.directory}});
  }
  return table_text(table, {});
}

std::string worker_table(const Preview& preview) {
  Table table{
      .columns = {{"HOST"}, {"LOCAL", true}, {"RANK", true}, {"GPU"}, {"CPUS"}, {"COMMAND"}},
      .rows = {}};
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      table.rows.push_back({{node.name.empty() ? node.host : node.name},
                            {std::to_string(worker.local_rank)},
                            {or_unknown(worker.rank)},
                            {or_dash(worker.gpu)},
                            {worker.cpus.empty() ? "all" : worker.cpus},
                            {command_text(worker.command)}});
    }
  }
  return table_text(table, {});
}

std::string setting(std::string_view name, const std::optional<std::string>& value) {
  return fmt::format("{}={}", name, value ? plain_line(*value) : std::string(unknown));
}

// Whether all workers have the variable with this value.
bool is_common(const Preview& preview, std::string_view name,
               const std::optional<std::string>& value) {
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      const auto at = worker.variables.find(name);
      if (at == worker.variables.end() || at->second != value) return false;
    }
  }
  return true;
}

std::string variable_lines(const Preview& preview) {
  std::string common;
  std::string own;
  bool is_first = true;
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      std::string line;
      for (const auto& [name, value] : worker.variables) {
        if (!is_common(preview, name, value)) {
          line += " " + setting(name, value);
        } else if (is_first) {
          common += fmt::format("  {}\n", setting(name, value));
        }
      }
      is_first = false;
      if (line.empty()) continue;
      own += fmt::format("  {} {}:{}\n", node.name.empty() ? node.host : node.name,
                         worker.local_rank, line);
    }
  }
  std::string text = "\nvariables of all workers:\n" + common;
  if (!own.empty()) text += "variables of each worker (host and local rank):\n" + own;
  return text;
}

std::string node_lines(const Preview& preview) {
  std::string text;
  for (const auto& node : preview.nodes) {
    const std::string& name = node.name.empty() ? node.host : node.name;
    if (!node.inherited.empty()) text += fmt::format("inherited variables on {}:\n", name);
    for (const auto& [variable, value] : node.inherited) {
      text += fmt::format("  {}\n", setting(variable, value));
    }
    for (const auto& note : node.notes) {
      text += fmt::format("note on {}: {}\n", name, plain_lines(note));  // a hint has its own line
    }
  }
  return text;
}

std::string unknown_lines(const Preview& preview) {
  std::string text;
  for (const auto& each : unknowns_of(preview)) {
    text += fmt::format("  {}: {}\n", each.what, each.why);
  }
  return text.empty() ? text
                      : "known only after the start (" + std::string(unknown) + "):\n" + text;
}

}  // namespace

std::string preview_text(const Preview& preview) {
  const bool has_hosts = !preview.nodes.empty() && !preview.nodes.front().name.empty();
  return (has_hosts ? of_hosts(preview) : head(preview)) + job_lines(preview) + "\n" +
         node_table(preview) + "\n" + worker_table(preview) + variable_lines(preview) +
         node_lines(preview) + unknown_lines(preview);
}

}  // namespace cpprun
