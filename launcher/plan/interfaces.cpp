// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/interfaces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

bool usable(const NetworkInterface& interface) {
  return interface.up && !interface.addresses.empty();
}

// What is known about how this node reaches the others.
struct Company {
  bool alone = false;
  std::string local_address;  // the address from which the others are reached; empty: not known yet
};

constexpr const char* none_up = "no network interface is up and has an address";

// "eth0 (10.0.0.5), ib0 (192.168.1.5)": names the user can copy into the variable; may be empty. If
// the address towards the others is known, only its interface is listed.
std::string those_that_would_do(const std::vector<NetworkInterface>& interfaces,
                                const Company& company) {
  std::vector<std::string> names;
  const auto add = [&](const NetworkInterface& each) {
    names.push_back(fmt::format("{} ({})", each.name, each.addresses.front()));
  };
  for (const auto& each : interfaces) {
    if (usable(each) && !company.alone && carries(each, company.local_address)) add(each);
  }
  const bool known = !names.empty();
  for (const auto& each : interfaces) {
    if (!known && usable(each) && (!each.loopback || company.alone)) add(each);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Why a name is not usable; nullopt if it is.
std::optional<std::string> fault_of(const std::vector<NetworkInterface>& interfaces,
                                    const std::string& name) {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& each) { return each.name == name; });
  if (found == interfaces.end()) return "does not exist on this machine";
  if (!found->up) return "is down";
  if (found->addresses.empty()) return "has no address";
  return std::nullopt;
}

// NCCL takes name prefixes, `=` before exact names, and `^` before names to exclude.
bool nccl_would_find(const std::vector<NetworkInterface>& interfaces, std::string_view wanted) {
  const bool leave_out = wanted.starts_with('^');
  if (leave_out) wanted.remove_prefix(1);
  const bool exact = wanted.starts_with('=');
  if (exact) wanted.remove_prefix(1);
  const auto names = interface_names(wanted);
  return std::any_of(interfaces.begin(), interfaces.end(), [&](const auto& each) {
    const bool named = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return exact ? each.name == name : each.name.starts_with(name.substr(0, name.find(':')));
    });
    return usable(each) && named != leave_out;
  });
}

// The user's own choice, checked; nullopt if the variable is not set.
Result<std::optional<std::string>> users_choice(const std::vector<NetworkInterface>& interfaces,
                                                std::string_view variable, const Company& company,
                                                const Environment& environment) {
  const auto* value = find_variable(environment, variable);
  if (value == nullptr || value->empty()) return std::nullopt;
  const auto refuse = [&](const std::string& fault) {
    const auto others = those_that_would_do(interfaces, company);
    return failure(fmt::format("{}={}: {}; {}", variable, *value, fault,
                               others.empty() ? none_up : "use " + others));
  };
  if (variable == contract::nccl_socket_ifname) {
    if (nccl_would_find(interfaces, *value)) return *value;
    return refuse("no matching interface is up and has an address");
  }
  for (const auto& name : interface_names(*value)) {
    if (const auto fault = fault_of(interfaces, name)) return refuse(name + " " + *fault);
  }
  return *value;
}

// The interface chosen automatically; an error if none fits.
Result<std::optional<std::string>> own_choice(const std::vector<NetworkInterface>& interfaces,
                                              const Company& company) {
  for (const auto& each : interfaces) {
    if (!usable(each)) continue;
    if (company.alone ? each.loopback : carries(each, company.local_address)) return each.name;
  }
  // There is no route to that address from here. doubt_of_master warns the coordinator's node about
  // it. Its workers still need an interface.
  for (const auto& each : interfaces) {
    const bool leads_out = usable(each) && !each.loopback;
    if (!company.alone && company.local_address.empty() && leads_out) return each.name;
  }
  // A single machine without a loopback interface: let the libraries choose.
  if (company.alone) return std::nullopt;
  const auto others = those_that_would_do(interfaces, {company.alone, ""});
  if (others.empty()) return failure(none_up);
  return failure(
      fmt::format("this machine reaches the master from the address {}, but none of its "
                  "interfaces has this address\n  hint: set {} to one of these: {}",
                  company.local_address, contract::gloo_socket_ifname, others));
}

}  // namespace

bool carries(const NetworkInterface& interface, std::string_view address) {
  const auto without_scope = address.substr(0, address.find('%'));
  return std::ranges::find(interface.addresses, without_scope) != interface.addresses.end();
}

std::vector<std::string> those_of_others(const std::vector<std::string>& addresses,
                                         const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> others;
  for (const std::string& address : addresses) {
    const bool is_ours =
        is_loopback(address) ||
        std::ranges::any_of(interfaces, [&](const auto& each) { return carries(each, address); });
    if (!is_ours) others.push_back(address);
  }
  return others;
}

std::vector<OwnAddress> addresses_for_others(const std::vector<NetworkInterface>& interfaces) {
  std::vector<OwnAddress> own;
  for (const NetworkInterface& each : interfaces) {
    if (!each.up || each.loopback) continue;
    for (const std::string& address : each.addresses) {
      if (!address.starts_with("fe80:")) own.push_back({address, each.name});
    }
  }
  return own;
}

std::vector<std::string> interface_names(std::string_view list) {
  std::vector<std::string> names;
  for (const auto name : split(list, ',')) {
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

LocalAddress resolve_local_address(const std::string& given,
                                   const std::vector<std::string>& addresses,
                                   const std::vector<NetworkInterface>& interfaces) {
  for (const std::string& address : addresses) {
    const bool ours = std::any_of(interfaces.begin(), interfaces.end(),
                                  [&](const auto& each) { return carries(each, address); });
    if (ours) return {.address = address, .note = ""};
  }
  return {.address = std::nullopt,
          .note = fmt::format("--local-addr={} has no effect: it is not an address of this machine",
                              given)};
}

Result<void> check_users_interfaces(const std::vector<NetworkInterface>& interfaces, bool alone,
                                    const Environment& environment,
                                    const std::string& local_address) {
  for (const auto variable :
       {contract::gloo_socket_ifname, contract::tp_socket_ifname, contract::nccl_socket_ifname}) {
    const auto choice = users_choice(interfaces, variable, {alone, local_address}, environment);
    if (!choice) return tl::unexpected(choice.error());
  }
  return {};
}

Result<SocketInterfaces> choose_interfaces(const std::vector<NetworkInterface>& interfaces,
                                           const std::string& local_address, bool alone,
                                           const Environment& environment) {
  const auto users = [&](std::string_view variable) {
    return users_choice(interfaces, variable, {alone, local_address}, environment);
  };
  const auto gloo = users(contract::gloo_socket_ifname);
  const auto tensorpipe = users(contract::tp_socket_ifname);
  const auto nccl = users(contract::nccl_socket_ifname);
  for (const auto* checked : {&gloo, &tensorpipe, &nccl}) {
    if (!*checked) return tl::unexpected(checked->error());
  }
  SocketInterfaces chosen;
  chosen.said = gloo->value_or("");
  if (*gloo && *tensorpipe && *nccl) return chosen;

  const auto ours = own_choice(interfaces, {alone, local_address});
  if (!ours) return tl::unexpected(ours.error());
  if (!*gloo) chosen.gloo = *ours;
  if (!*tensorpipe) chosen.tensorpipe = *ours;
  // NCCL avoids loopback on purpose. On a single machine it needs no network.
  if (!*nccl && !alone) chosen.nccl = *ours;
  if (!*gloo) chosen.said = ours->value_or("its own choice");
  return chosen;
}

}  // namespace cpprun
