// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/stray_interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "launcher/endpoint.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

struct Address {
  std::array<std::uint8_t, 16> bytes{};
  int bits = 0;  // 0: it is none
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

// Addresses that no interface of this machine has: without any, the other node is here as well.
std::vector<std::string> foreign_addresses(const std::vector<NetworkInterface>& interfaces,
                                           const std::vector<std::string>& addresses) {
  std::vector<std::string> foreign;
  for (const std::string& each : addresses) {
    const bool here = is_loopback(each) || std::any_of(interfaces.begin(), interfaces.end(),
                                                       [&](const NetworkInterface& interface) {
                                                         return carries(interface, each);
                                                       });
    if (!here) foreign.push_back(each);
  }
  return foreign;
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
  // Where the networks are not known, nothing can be said against it.
  return carries(interface, local_address) || interface.networks.empty() ||
         shares_one(interface, foreign);
}

// The names in the variable; NCCL's `=` is left out, and its `^` names nobody.
std::vector<std::string> named(std::string_view list) {
  std::vector<std::string> names;
  if (list.starts_with('^')) return names;
  if (list.starts_with('=')) list.remove_prefix(1);
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (comma != 0) names.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
  return names;
}

}  // namespace

bool shares_network(const std::string& network, const std::string& address) {
  const auto slash = network.find('/');
  if (slash == std::string::npos) return false;
  const int prefix = exact_number<int>(std::string_view(network).substr(slash + 1)).value_or(0);
  const Address one = parse(network.substr(0, slash));
  const Address other = parse(address);
  // The same address on two machines is each one's own: docker0 has it everywhere.
  if (one.bits == 0 || one.bits != other.bits || one.bytes == other.bytes) return false;
  for (int bit = 0; bit < std::min(prefix, one.bits); ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const auto mask = static_cast<std::uint8_t>(0x80U >> static_cast<unsigned>(bit % 8));
    if (((one.bytes[at] ^ other.bytes[at]) & mask) != 0) return false;
  }
  return true;
}

std::optional<std::string> stray_interface(const std::vector<NetworkInterface>& interfaces,
                                           const WayToOthers& way, const Environment& environment) {
  const auto foreign = foreign_addresses(interfaces, way.neighbour);
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
      const std::string cure = good == interfaces.end()
                                   ? fmt::format("unset {}", variable)
                                   : fmt::format("unset {}, or name {} ({}), which leads to them",
                                                 variable, good->name, good->addresses.front());
      return fmt::format(
          "{}={}: {} ({}) {} the other nodes, one of which has {}; workers that use it will not "
          "find each other; {}",
          variable, *value, name, stray->addresses.front(),
          stray->loopback ? "never leaves this machine, and so does not reach"
                          : "shares no network with",
          fmt::join(foreign, ", "), cure);
    }
  }
  return std::nullopt;
}

std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way) {
  if (!is_loopback(way.local_address)) return std::nullopt;
  const auto foreign = foreign_addresses(interfaces, way.neighbour);
  const auto found =
      std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& each) {
        return each.up && !each.loopback && shares_one(each, foreign);
      });
  if (foreign.empty() || found == interfaces.end()) return std::nullopt;
  return found->name;
}

}  // namespace cpprun
