// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Chooses the network interface for the workers' collectives. cpprun knows from which of its
// addresses it reaches the coordinator. It uses the interface with that address, unless the user
// named another. Pure: `io/host` lists the interfaces.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses;      // IPv4 and IPv6 literals without scope
  std::vector<std::string> networks = {};  // the same with prefix lengths, "10.0.0.5/24"
  friend bool operator==(const NetworkInterface&, const NetworkInterface&) = default;
};

// Whether the interface has that address, whose scope ("%eth0") does not matter.
bool carries(const NetworkInterface& interface, std::string_view address);

// The addresses that do not belong to this machine. Loopback addresses belong to every machine.
std::vector<std::string> those_of_others(const std::vector<std::string>& addresses,
                                         const std::vector<NetworkInterface>& interfaces);

// An address under which other machines may know this one, and its interface. Link-local addresses
// are excluded: they mean a different host on each machine.
struct OwnAddress {
  std::string address;
  std::string interface;
};
std::vector<OwnAddress> addresses_for_others(const std::vector<NetworkInterface>& interfaces);

// The names in a list of interfaces with commas, without empty ones.
std::vector<std::string> interface_names(std::string_view list);

// The values to export. A variable that the user set, or that is not needed, is nullopt.
struct SocketInterfaces {
  std::optional<std::string> gloo;
  std::optional<std::string> tensorpipe;
  std::optional<std::string> nccl;
  std::string said;  // the interface of the collectives, for the start line: "eth0", "lo"
  friend bool operator==(const SocketInterfaces&, const SocketInterfaces&) = default;
};

// Checks that the interfaces that the user named exist, are up and have an address. This needs no
// connection to the coordinator, so errors are reported before any node waits for this one. The
// error lists valid interfaces. If the address from which the coordinator is reached is already
// known (`local_address`), only the interface with that address is listed.
Result<void> check_users_interfaces(const std::vector<NetworkInterface>& interfaces, bool alone,
                                    const Environment& environment,
                                    const std::string& local_address = {});

// The result of --local-addr: the literal address on one of this machine's interfaces, up or not.
// An address that is not on an interface, for example behind NAT, cannot be listened on by a
// worker. In that case `address` is empty and `note` says so.
struct LocalAddress {
  std::optional<std::string> address;
  std::string note;
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};
// `addresses`: the literal addresses that `given` resolves to, if it resolves.
LocalAddress resolve_local_address(const std::string& given,
                                   const std::vector<std::string>& addresses,
                                   const std::vector<NetworkInterface>& interfaces);

// `local_address` is the address from which this node reaches the coordinator, empty if it has no
// route there. `alone` means that the whole job runs on this machine. The error lists valid
// interfaces.
Result<SocketInterfaces> choose_interfaces(const std::vector<NetworkInterface>& interfaces,
                                           const std::string& local_address, bool alone,
                                           const Environment& environment);

}  // namespace cpprun
