// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/meeting_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "proto/secure/secret.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

namespace {

// The flag that sets the rendezvous host: "--master-addr=10.0.0.5".
std::string as_flag(const Config& config, const std::string& host) {
  return config.place_by_endpoint
             ? "--rdzv-endpoint=" + to_string(Endpoint{host, config.endpoint.port})
             : "--master-addr=" + host;
}

// The same with an address of this machine.
std::string own_as_flag(const Config& config, const std::vector<NetworkInterface>& interfaces) {
  const auto own = addresses_for_others(interfaces);
  return as_flag(config, own.empty() ? "HOST" : own.front().address);
}

// "trainer (10.0.0.9)", or the address alone if no name was given.
std::string place_text(const Config& config, const std::vector<std::string>& addresses) {
  const std::string& host = config.endpoint.host;
  if (addresses.empty() || (addresses.size() == 1 && addresses.front() == host)) return host;
  if (host == "localhost") return host;
  return fmt::format("{} ({})", host, fmt::join(addresses, ", "));
}

}  // namespace

Whose whose(const std::vector<std::string>& addresses,
            const std::vector<NetworkInterface>& interfaces) {
  if (addresses.empty()) return Whose::unknown;
  const auto others = those_of_others(addresses, interfaces).size();
  if (others == addresses.size()) return Whose::others;
  if (others > 0) return Whose::shared;
  const bool nowhere_else = std::all_of(addresses.begin(), addresses.end(),
                                        [](const std::string& each) { return is_loopback(each); });
  return nowhere_else ? Whose::loopback : Whose::ours;
}

std::string own_addresses_text(const std::vector<NetworkInterface>& interfaces) {
  std::string text;
  for (const OwnAddress& own : addresses_for_others(interfaces)) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", own.address, own.interface);
  }
  return text.empty() ? "no address that other machines can use" : text;
}

Result<bool> is_meant(const Config& config, const std::vector<std::string>& addresses,
                      const std::vector<NetworkInterface>& interfaces) {
  const Whose owner = whose(addresses, interfaces);
  if (owner != Whose::shared) return owner == Whose::ours || owner == Whose::loopback;
  const auto others = those_of_others(addresses, interfaces);
  std::vector<std::string> own;
  std::ranges::copy_if(addresses, std::back_inserter(own), [&](const std::string& each) {
    return std::ranges::find(others, each) == others.end();
  });
  // Every node must get the same advice, and a loopback address is different on each.
  std::vector<std::string> named;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(named),
               [](const std::string& each) { return !is_loopback(each); });
  return failure(fmt::format(
      "\"{}\" resolves to several machines ({} is this machine, {} is not), and each would become "
      "the master of its own job; start every node with {} (in a StatefulSet, the name of the "
      "first pod), or set --rdzv-conf=is_host=true on the master and is_host=false on all other "
      "nodes",
      config.endpoint.host, fmt::join(own, ", "), fmt::join(others, ", "),
      as_flag(config, *std::min_element(named.begin(), named.end()))));
}

std::optional<Doubt> doubt_of_master(const Config& config,
                                     const std::vector<std::string>& addresses,
                                     const std::vector<NetworkInterface>& interfaces) {
  const std::string place = place_text(config, addresses);
  switch (whose(addresses, interfaces)) {
    case Whose::unknown:
    case Whose::ours:
    case Whose::shared:
      return std::nullopt;
    case Whose::others:
      return Doubt{
          fmt::format("the master's address {} is not an address of this machine (this machine has "
                      "{}); start every node with {}, unless a Service, a NAT or a forwarded port "
                      "leads here",
                      place, own_addresses_text(interfaces), own_as_flag(config, interfaces)),
          true};
    case Whose::loopback:
      if (config.nodes_max == 1) return std::nullopt;
      return Doubt{fmt::format("{} is only reachable from this machine; for a multi-node job, "
                               "start every node with an address of the master, such as {}",
                               place, own_as_flag(config, interfaces)),
                   false};
  }
  return std::nullopt;
}

std::string hint_for_dialler(const Config& config, const std::vector<std::string>& addresses,
                             const std::vector<NetworkInterface>& interfaces) {
  const std::string place = place_text(config, addresses);
  const bool by_rank = config.rendezvous == RendezvousMode::fixed_master && config.node_rank;
  const std::string flag = config.place_by_endpoint ? "--rdzv-endpoint" : "--master-addr";
  switch (whose(addresses, interfaces)) {
    case Whose::unknown:
    case Whose::shared:
      return {};
    case Whose::others:
      if (!by_rank) return "; check that a node is running on that machine";
      return fmt::format(
          "; check that the node with --node-rank=0 is running there, with the same {}", flag);
    case Whose::ours:
    case Whose::loopback:
      if (config.etcd) {
        return "; the rendezvous process of this node does not respond or finds no leader in etcd; "
               "see its messages above";
      }
      if (!by_rank) {
        return fmt::format(
            "; {} is this machine, where is_host=false keeps the node from hosting the job; remove "
            "is_host=false here, or set {} on every node to the machine that hosts the job",
            place, flag);
      }
      return fmt::format(
          "; {} is this machine (--node-rank={}), but the master is the node with --node-rank=0; "
          "set {} on every node to the address of that node, or start this node with "
          "--node-rank=0",
          place, *config.node_rank, flag);
  }
  return {};
}

std::string unresolved_text(const Config& config, const std::string& why,
                            const std::vector<NetworkInterface>& interfaces) {
  return fmt::format(
      "cannot resolve \"{}\" ({}) on this machine, the master, so its workers would not find the "
      "store; add the name to /etc/hosts or DNS, or start every node with an address of this "
      "machine ({})",
      config.endpoint.host, why, own_addresses_text(interfaces));
}

std::string unresolved_for_others(const Config& config, const std::string& why) {
  return fmt::format("the master is running, but cannot resolve its own name \"{}\" ({})",
                     config.endpoint.host, why);
}

namespace {

// Whether the endpoint's host is this machine, by any of its names, aliases and addresses.
Result<bool> is_this_machine(const Config& config, const HostingFacts& facts) {
  const std::string& host = config.endpoint.host;
  if (is_loopback(host)) return true;
  auto meant = is_meant(config, facts.addresses_of(host), facts.interfaces);
  // The machine's own name always refers to it, whatever it resolves to, unless other machines have
  // the same name.
  if (meant && host == facts.host_name) return true;
  return meant;
}

}  // namespace

Result<Hosting> decide_hosting(const Config& config, const HostingFacts& facts) {
  if (config.meets_at_a_set()) return Hosting::never;
  if (config.is_host) return *config.is_host ? Hosting::must : Hosting::never;
  // With an endpoint, another node or a daemon may host the coordinator, even for a single-node
  // job.
  if (config.rendezvous != RendezvousMode::endpoint) {
    if (config.nodes_max == 1) return Hosting::must;
    if (config.node_rank) return *config.node_rank == 0 ? Hosting::must : Hosting::never;
  }
  const auto meant = is_this_machine(config, facts);
  if (!meant) return tl::unexpected(meant.error());
  return *meant ? Hosting::may : Hosting::never;
}

std::string listening_address(const Endpoint& endpoint) {
  return endpoint.host != "localhost" && is_loopback(endpoint.host) ? endpoint.host : "";
}

namespace {

// The number of standbys that replicate the leader's state. Each reply waits for all of them.
constexpr std::size_t standbys_max = 2;

// Keeps letters, digits, dashes and underscores, and encodes every other byte as its number.
// Different texts give different results.
std::string plain(std::string_view text) {
  std::string plain;
  for (const char byte : text) {
    const auto letter = static_cast<unsigned char>(byte);
    if (std::isalnum(letter) != 0 || byte == '-' || byte == '_') {
      plain += byte;
    } else {
      plain += fmt::format("%{:02x}", letter);
    }
  }
  return plain;
}

}  // namespace

Result<EtcdMembers> etcd_endpoints(std::string_view text, bool is_secure) {
  auto endpoints = parse_etcd_endpoints(text);
  if (!endpoints) return tl::unexpected(endpoints.error());
  const bool names_protocol = text.find("://") != text.npos;
  EtcdMembers members{.first = {endpoints->front().host, endpoints->front().port}};
  for (EtcdEndpoint& each : *endpoints) {
    if (!names_protocol) each.is_secure = is_secure;
    members.all += (members.all.empty() ? "" : ",") + to_string(each);
  }
  return members;
}

std::string etcd_cluster(std::string_view prefix, std::string_view job) {
  return fmt::format("job.{}.{}", plain(prefix), plain(job));
}

DaemonOptions own_daemon_options(const Config& config, const std::string& name,
                                 const std::string& address, Secrets secrets) {
  const EtcdMeeting& etcd = *config.etcd;
  DaemonOptions options{
      .port = 0,
      .is_quiet = true,
      .log_level = config.logs.level > LogLevel::info ? LogLevel::debug : LogLevel::warning,
      .status_access = config.status_access,
      .looks_for_secret = false,
      .etcd = etcd.endpoints,
      .etcd_user = etcd.user,
      .etcd_password_file = etcd.password_file,
      .etcd_authorities_file = etcd.authorities_file,
      .etcd_certificate_file = etcd.certificate_file,
      .etcd_key_file = etcd.key_file,
      .cluster = etcd_cluster(etcd.prefix, config.job),
      .name = name,
      .advertised = address.find(':') == std::string::npos ? address : "[" + address + "]",
      .has_plain_store = false};
  options.secrets_in_hand = std::move(secrets);
  options.etcd_lease = etcd.lease.value_or(options.etcd_lease);
  options.standbys_max = standbys_max;
  options.leaves_nothing = true;
  options.lease_max = std::max(options.lease_max, config.lease());
  return options;
}

bool uses_secret(const Config& config) {
  return config.rendezvous != RendezvousMode::standalone;
}

StoreWay resolve_store(const Config& config, bool has_secret) {
  if (config.store != StoreWay::automatic) return config.store;
  // A store that workers reach by cpprun's own connections survives a change of the leader.
  if (config.meets_at_a_set()) return StoreWay::local;
  return has_secret ? StoreWay::local : StoreWay::direct;
}

std::optional<std::string> missing_secret(const Config& config) {
  if (!config.require_secret || config.nodes_max == 1) return std::nullopt;
  return "CPPRUN_REQUIRE_SECRET=1 requires a secret, but this node has none\n  hint: create one "
         "with \"cpprunctl keygen\" and copy it to every node";
}

std::optional<std::string> open_port_note(const Config& config, std::string_view address) {
  if (config.insecure || config.nodes_max == 1 || is_loopback(address)) return std::nullopt;
  return fmt::format(
      "port {} is open to every machine that can reach {}: this job has no secret\n  hint: create "
      "one with \"cpprunctl keygen\", or hide this note with --insecure",
      config.endpoint.port, address);
}

Environment without_secret_path(Environment environment) {
  // In C++20 `erase` does not accept a key of another type.
  const auto found = environment.find(secret_file_variable);
  if (found != environment.end()) environment.erase(found);
  return environment;
}

}  // namespace cpprun
