// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/misconfiguration.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

// The second observation comes after this fraction of the timeout.
constexpr int second_look_part = 6;
// Occasional retries use less than this fraction of the CPU time; a training step uses all of it.
constexpr int idle_part = 20;
constexpr std::size_t named_max = 4;

std::string first_few(std::vector<std::string> names) {
  const bool more = names.size() > named_max;
  if (more) names.resize(named_max);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? " and others" : "");
}

std::string to_text(Duration silence, const std::string& sign) {
  return fmt::format(
      "no worker has contacted the store for {:.0f} s, and {}; perhaps the script starts its own "
      "ranks (mp.spawn, init_method=\"tcp://…\", its own MASTER_PORT), which cannot work: cpprun "
      "has already started one process per rank\n  hint: read RANK, LOCAL_RANK and WORLD_SIZE "
      "from the environment and call init_process_group() without arguments, or run the script "
      "with plain python",
      in_seconds(silence), sign);
}

}  // namespace

void SelfLaunchDetector::began(TimePoint now) {
  began_ = now;
  due_ = now + timeouts_.silence;
  pause_ = timeouts_.silence / second_look_part;
  processor_time_.reset();
}

bool SelfLaunchDetector::take_due(TimePoint now) {
  if (!due_ || *due_ > now) return false;
  due_ = now + pause_;
  pause_ *= 2;
  return true;
}

std::optional<std::string> SelfLaunchDetector::judge(TimePoint now, const WorldProbe& look) {
  if (!due_) return std::nullopt;
  if (look.store_asked) {
    over();
    return std::nullopt;
  }
  const auto before = std::exchange(processor_time_, look.processor_time);
  const Duration pause = now - std::exchange(looked_, now);
  std::string sign;
  if (!look.listeners.empty()) {
    sign = fmt::format(
        "this node's first worker or one of its children listens on a port of its own ({})",
        first_few(look.listeners));
  } else if (!look.spawned.empty()) {
    sign = fmt::format("this node's first worker has started processes with multiprocessing ({})",
                       first_few(look.spawned));
  } else if (timeouts_.sleepers && before) {
    const bool idle = look.processor_time - *before < pause / idle_part;
    if (idle)
      sign = fmt::format("this node's first worker has been idle for {:.0f} s", in_seconds(pause));
  }
  if (sign.empty()) return std::nullopt;
  over();
  return to_text(now - began_, sign);
}

// "  0: 0100007F:3043 00000000:0000 0A …": words two to four are the local address, the peer's
// address and the state, where 0A is listening. The tenth is the inode.
void add_listening(std::string_view table, std::map<std::string, int>& port_of_inode) {
  constexpr int local_word = 1;
  constexpr int state_word = 3;
  constexpr int inode_word = 9;
  for (const std::string_view line : split(table, '\n')) {
    std::istringstream stream{std::string(line)};
    std::array<std::string, inode_word + 1> words;
    for (std::string& word : words) stream >> word;
    if (words[state_word] != "0A") continue;
    const std::string_view local = words[local_word];
    const auto colon = local.rfind(':');
    if (colon == std::string_view::npos) continue;
    const auto port = hex_number<int>(local.substr(colon + 1));
    if (port) port_of_inode[words[inode_word]] = *port;
  }
}

ProcessUse process_use(const std::string& stat, long ticks_per_second) {
  constexpr int user_word = 14;
  constexpr int stack_word = 28;
  // The name may contain spaces and parentheses. The format after the last parenthesis is regular.
  const auto name_begin = stat.find('(');
  const auto name_end = stat.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream stream(stat.substr(name_end + 1));
  ProcessUse use{.name = stat.substr(name_begin + 1, name_end - name_begin - 1)};
  std::string word;
  for (int skipped = 3; skipped < user_word; ++skipped) stream >> word;
  long user = 0;
  long system = 0;
  stream >> user >> system;
  for (int skipped = user_word + 2; skipped <= stack_word; ++skipped) stream >> use.stack;
  use.processor_time = std::chrono::duration_cast<Duration>(std::chrono::seconds(user + system)) /
                       std::max(1L, ticks_per_second);
  return use;
}

bool is_spawned(const ProcessUse& child, const ProcessUse& worker) {
  const bool python = child.name.starts_with("python") || child.name == "pt_main_thread";
  return python && child.stack != worker.stack;
}

namespace {

struct Address {
  std::array<std::uint8_t, 16> bytes{};
  int bits = 0;  // 0: not an address
};

Address parse(const std::string& text) {
  Address address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
    address.bits = 32;
  } else if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    address.bits = 128;
  }
  return address;
}

bool shares_one(const NetworkInterface& interface, const std::vector<std::string>& foreign) {
  return std::any_of(foreign.begin(), foreign.end(), [&](const std::string& address) {
    return std::any_of(
        interface.networks.begin(), interface.networks.end(),
        [&](const std::string& network) { return shares_network(network, address); });
  });
}

bool leads_to(const NetworkInterface& interface, const std::string& local_address,
              const std::vector<std::string>& foreign) {
  if (!interface.up || interface.addresses.empty() || interface.loopback) return false;
  // If its networks are unknown, nothing speaks against it.
  return carries(interface, local_address) || interface.networks.empty() ||
         shares_one(interface, foreign);
}

// The names in the variable, without NCCL's leading `=`. A list with NCCL's `^` names none.
std::vector<std::string> named(std::string_view list) {
  if (list.starts_with('^')) return {};
  if (list.starts_with('=')) list.remove_prefix(1);
  return interface_names(list);
}

// How libraries describe the attempt. A connection that was closed had come up before.
constexpr std::array<std::string_view, 6> attempts = {
    "to connect, ", "connecting: ", "onnect [", "onnect to ", "PollConnect", "StartConnect"};

bool is_address(std::string_view text) {
  return text.size() < 46 && parse(std::string(text)).bits != 0;
}

// From "remote=[10.78.0.1]:10633" and the like: the address after `word`, or the first one in
// brackets after a `=` if `word` is empty.
std::string bracketed_address(std::string_view line, std::string_view word) {
  for (auto at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const auto before = line.substr(0, at);
    const bool is_named = before.ends_with('=');
    if (word.empty() ? is_named : !before.ends_with(word)) continue;
    const auto text = line.substr(at + 1, line.find(']', at) - at - 1);
    if (is_address(text)) return std::string(text);
  }
  return "";
}

// NCCL's format: "10.78.0.1<35621>", and "fe80::a%ib0<35621>", without the scope.
std::string angled_address(std::string_view line) {
  constexpr std::string_view characters = "0123456789abcdefABCDEF.:";
  for (auto at = line.find('<'); at != std::string_view::npos; at = line.find('<', at + 1)) {
    auto before = line.substr(0, at);
    const auto scope = before.find_last_of("% ");
    if (scope != std::string_view::npos && before[scope] == '%') before = before.substr(0, scope);
    const auto last_other = before.find_last_not_of(characters);
    const auto text = last_other == std::string_view::npos ? before : before.substr(last_other + 1);
    if (is_address(text)) return std::string(text);
  }
  return "";
}

FailedConnection connection_in(std::string_view line) {
  FailedConnection found{.local = bracketed_address(line, "local="),
                         .remote = bracketed_address(line, "remote=")};
  if (found.remote.empty()) found.remote = angled_address(line);
  if (found.remote.empty()) found.remote = bracketed_address(line, "");
  return found;
}

// The variable in which the user named that interface. Empty: none.
std::string_view variable_naming(const std::string& interface, const Environment& environment) {
  for (const auto variable :
       {contract::gloo_socket_ifname, contract::tp_socket_ifname, contract::nccl_socket_ifname}) {
    const auto* value = find_variable(environment, variable);
    if (value != nullptr && std::ranges::count(named(*value), interface) > 0) return variable;
  }
  return "";
}

// The other node is on the network of the interface that reaches it, but used another address.
std::optional<std::string> others_interface(const NetworkInterface& good,
                                            const std::vector<std::string>& others,
                                            const std::string& remote) {
  const bool is_others = std::ranges::count(others, remote) > 0;
  const auto near = std::ranges::find_if(
      others, [&](const std::string& each) { return shares_one(good, {each}); });
  if (!is_others || near == others.end() || shares_one(good, {remote})) return std::nullopt;
  return fmt::format(
      "{} ({}) cannot connect to {}; that node can be reached at {}, so correct GLOO_SOCKET_IFNAME "
      "or NCCL_SOCKET_IFNAME on that node",
      good.name, good.addresses.front(), remote, *near);
}

}  // namespace

std::optional<FailedConnection> failed_connection(const std::vector<std::string>& lines) {
  std::optional<FailedConnection> found;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    // The store client prints this about the master, whichever interface the collectives use.
    const bool is_meant = line->find("client socket") == std::string::npos &&
                          std::any_of(attempts.begin(), attempts.end(), [&](std::string_view each) {
                            return line->find(each) != std::string::npos;
                          });
    if (!is_meant) continue;
    const auto each = connection_in(*line);
    if (each.remote.empty() || (found && found->remote != each.remote)) continue;
    if (!found) found = each;
    if (!each.local.empty()) return each;
  }
  return found;
}

std::optional<std::string> unconnected_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment,
                                                 const FailedConnection& connection) {
  const auto foreign = those_of_others({connection.remote}, interfaces);
  if (foreign.empty()) return std::nullopt;
  const auto used = std::ranges::find_if(interfaces, [&](const NetworkInterface& each) {
    return connection.local.empty() ? shares_one(each, foreign) : carries(each, connection.local);
  });
  // Good: the interface on the route to the master. On the master: the one towards the first other
  // node.
  const bool is_master = way.local_address.empty() || is_loopback(way.local_address);
  const auto others = those_of_others(way.neighbour, interfaces);
  const auto good = std::ranges::find_if(interfaces, [&](const NetworkInterface& each) {
    if (!each.up || each.loopback) return false;
    return is_master ? !others.empty() && shares_one(each, {others.front()})
                     : carries(each, way.local_address);
  });
  if (good == interfaces.end()) return std::nullopt;
  const auto variable = used == interfaces.end() ? "" : variable_naming(used->name, environment);
  const bool is_used = !connection.local.empty() || !variable.empty();
  if (used == interfaces.end() || used == good || !is_used) {
    return others_interface(*good, others, connection.remote);
  }
  const std::string& address =
      connection.local.empty() ? used->addresses.front() : connection.local;
  if (variable.empty()) {
    return fmt::format("{} ({}) cannot connect to {}; {} ({}) leads to the other nodes", used->name,
                       address, connection.remote, good->name, good->addresses.front());
  }
  return fmt::format(
      "{}={}: {} ({}) cannot connect to {}; unset {}, or name {} ({}), which leads to the other "
      "nodes",
      variable, *find_variable(environment, variable), used->name, address, connection.remote,
      variable, good->name, good->addresses.front());
}

bool shares_network(const std::string& network, const std::string& address) {
  const auto slash = network.find('/');
  if (slash == std::string::npos) return false;
  const int prefix = exact_number<int>(std::string_view(network).substr(slash + 1)).value_or(0);
  const Address one = parse(network.substr(0, slash));
  const Address other = parse(address);
  // The same address on two machines belongs to each of them: docker0 has it everywhere.
  if (one.bits == 0 || one.bits != other.bits || one.bytes == other.bytes) return false;
  for (int bit = 0; bit < std::min(prefix, one.bits); ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const auto mask = static_cast<std::uint8_t>(0x80U >> static_cast<unsigned>(bit % 8));
    if (((one.bytes[at] ^ other.bytes[at]) & mask) != 0) return false;
  }
  return true;
}

std::optional<std::string> unreachable_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment) {
  const auto foreign = those_of_others(way.neighbour, interfaces);
  if (foreign.empty()) return std::nullopt;
  const auto leads = [&](const NetworkInterface& each) {
    return leads_to(each, way.local_address, foreign);
  };
  for (const auto variable :
       {contract::gloo_socket_ifname, contract::tp_socket_ifname, contract::nccl_socket_ifname}) {
    const auto* value = find_variable(environment, variable);
    if (value == nullptr) continue;
    for (const std::string& name : named(*value)) {
      const auto stray = std::find_if(interfaces.begin(), interfaces.end(),
                                      [&](const auto& each) { return each.name == name; });
      if (stray == interfaces.end() || stray->addresses.empty() || leads(*stray)) continue;
      const auto good = std::find_if(interfaces.begin(), interfaces.end(), leads);
      const std::string hint =
          good == interfaces.end()
              ? fmt::format("unset {}", variable)
              : fmt::format("unset {}, or name {} ({}), which leads to the other nodes", variable,
                            good->name, good->addresses.front());
      return fmt::format(
          "{}={}: {} ({}) {} the other nodes (for example {}); workers on this interface cannot "
          "connect to each other; {}",
          variable, *value, name, stray->addresses.front(),
          stray->loopback ? "is a loopback interface and does not reach" : "shares no network with",
          fmt::join(foreign, ", "), hint);
    }
  }
  return std::nullopt;
}

std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way) {
  if (!is_loopback(way.local_address)) return std::nullopt;
  const auto foreign = those_of_others(way.neighbour, interfaces);
  const auto found =
      std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& each) {
        return each.up && !each.loopback && shares_one(each, foreign);
      });
  if (foreign.empty() || found == interfaces.end()) return std::nullopt;
  return found->name;
}

void DuplicateMasterCheck::look_at(TimePoint now, std::vector<std::string> addresses) {
  addresses_ = std::move(addresses);
  if (addresses_.size() > bounds::node_addresses_max) addresses_.resize(bounds::node_addresses_max);
  due_.reset();
  if (!addresses_.empty()) due_ = now;
}

std::vector<std::string> DuplicateMasterCheck::take_due(TimePoint now) {
  if (!due_ || *due_ > now) return {};
  due_ = now + bounds::status_interval;
  return addresses_;
}

DuplicateMasterVerdict judge_rival(const Config& config, const AgentFacts& facts,
                                   const link::Hosts& answer) {
  const std::string where = to_string(config.endpoint);
  if (answer.itself) return {};
  if (answer.job.empty()) {
    return {.sentence = fmt::format(
                "a cpprund listens at {}, but this node hosts its job itself: to use the daemon, "
                "set --rdzv-backend=c10d and --rdzv-endpoint={}, without --node-rank",
                where, where)};
  }
  if (answer.job != config.job) {
    return {.sentence =
                fmt::format("the other nodes of this job connect to {}, where {} is the master of "
                            "another job, \"{}\": give each job its own address",
                            where, answer.host, answer.job)};
  }
  const std::string job = answer.job == "none" ? "this job" : fmt::format("job \"{}\"", answer.job);
  return {
      .sentence = fmt::format("{} has two masters: {} (pid {}) at {} and this node, {}; start only "
                              "one node with --node-rank=0 (or is_host=true)",
                              job, answer.host, answer.pid, where, facts.host),
      .same_job = true};
}

void SetupChecks::reached(TimePoint now, const Config& config, const AgentFacts& facts,
                          std::string local_address, const std::vector<std::string>& addresses,
                          Actions& actions) {
  way_.local_address = std::move(local_address);
  if (!facts.hosts_coordinator) return;
  doubt_ = doubt_of_master(config, addresses, facts.interfaces);
  if (doubt_ && doubt_->strong)
    actions.emplace_back(events::Note{doubt_->sentence, LogLevel::warning});
  if (config.nodes_max == 1) return;
  rivals_.look_at(now, those_of_others(addresses, facts.interfaces));
}

void SetupChecks::sealed(TimePoint now, const std::vector<std::string>& neighbour,
                         AgentFacts& facts, Actions& actions) {
  rivals_.stop();
  doubt_.reset();
  if (facts.hosts_coordinator) self_launch_.began(now);
  way_.neighbour = neighbour;
  SocketInterfaces& sockets = facts.node.sockets;
  if (const auto better = better_than_loopback(facts.interfaces, way_)) {
    for (auto* const each : {&sockets.gloo, &sockets.tensorpipe, &sockets.nccl}) {
      if (*each) *each = *better;
    }
    if (sockets.gloo) sockets.said = *better;
  }
  const auto stray = cpprun::unreachable_interface(facts.interfaces, way_, facts.node.environment);
  if (stray && *stray != unreachable_interface_)
    actions.emplace_back(events::Note{*stray, LogLevel::warning});
  unreachable_interface_ = stray.value_or("");
}

void SetupChecks::ask_for_rivals(TimePoint now, const Config& config, const AgentFacts& facts,
                                 Actions& actions) {
  auto addresses = rivals_.take_due(now);
  if (addresses.empty()) return;
  actions.emplace_back(agent::AskWhoHosts{
      std::move(addresses),
      config.endpoint.port,
      {.job = config.job, .host = facts.host, .pid = facts.pid, .agent = facts.agent}});
}

std::optional<std::string> SetupChecks::answered(const Config& config, const AgentFacts& facts,
                                                 const link::Hosts& hosts, Actions& actions) {
  const DuplicateMasterVerdict verdict = judge_rival(config, facts, hosts);
  rivals_.stop();  // The answer will not change within the next few seconds.
  if (verdict.same_job) return verdict.sentence;
  if (!verdict.sentence.empty())
    actions.emplace_back(events::Note{verdict.sentence, LogLevel::warning});
  return std::nullopt;
}

void SetupChecks::probe_world(TimePoint now, bool are_running, Actions& actions) {
  if (!are_running) self_launch_.over();
  if (self_launch_.take_due(now)) actions.emplace_back(agent::ProbeWorld{});
}

void SetupChecks::seen(TimePoint now, const WorldProbe& look, Actions& actions) {
  if (auto sentence = self_launch_.judge(now, look)) {
    actions.emplace_back(events::Note{*std::move(sentence), LogLevel::warning});
  }
}

std::optional<TimePoint> SetupChecks::next_deadline() const {
  const auto rivals = rivals_.next_deadline();
  const auto look = self_launch_.next_deadline();
  return rivals && look ? std::min(*rivals, *look) : rivals ? rivals : look;
}

void SetupChecks::tell_doubt(Actions& actions) const {
  if (doubt_ && !doubt_->strong)
    actions.emplace_back(events::Note{doubt_->sentence, LogLevel::warning});
}

void SetupChecks::explain(const AgentFacts& facts, Evidence& evidence) const {
  const auto connection = failed_connection(evidence.last_lines);
  if (!connection) return;
  std::string& stray = evidence.host_facts.unreachable_interface;
  stray = unconnected_interface(facts.interfaces, way_, facts.node.environment, *connection)
              .value_or(stray);
}

}  // namespace cpprun
