// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which network interface the workers' collectives use. cpprun knows from which of its addresses it
// reaches the master; the interface that carries this address is the one, unless the user named
// another. Pure: `io/host` lists the interfaces.

#include <optional>
#include <string>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses;      // literal, IPv4 and IPv6, without scope
  std::vector<std::string> networks = {};  // the same with their prefixes, "10.0.0.5/24"
  friend bool operator==(const NetworkInterface&, const NetworkInterface&) = default;
};

// Whether that address is one of this interface.
bool carries(const NetworkInterface& interface, const std::string& address);

// The values to export. A variable that the user set, or that is not needed, has none.
struct SocketInterfaces {
  std::optional<std::string> gloo;
  std::optional<std::string> tensorpipe;
  std::optional<std::string> nccl;
  std::string said;  // what the collectives go over, for the start line: "eth0", "lo"
  friend bool operator==(const SocketInterfaces&, const SocketInterfaces&) = default;
};

// Whether the interfaces that the user named exist, are up and have an address. This is known
// before the master is reached, so it is reported before anybody waits for it. The error lists
// interfaces that would do: only the one that carries `local_address`, if the address from which
// the master is reached is known already.
Result<void> check_users_interfaces(const std::vector<NetworkInterface>& interfaces, bool alone,
                                    const Environment& environment,
                                    const std::string& local_address = {});

// What --local-addr comes to: the literal address it stands for on one of our interfaces, whether
// it is up or not. An address that others know this machine by, behind a translation, is none that
// a worker could listen on: then there is only the note that says so.
struct LocalAddress {
  std::optional<std::string> address;
  std::string note;
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};
// `addresses`: the literal ones that `given` stands for, if it resolves.
LocalAddress settle_local_address(const std::string& given,
                                  const std::vector<std::string>& addresses,
                                  const std::vector<NetworkInterface>& interfaces);

// `local_address` is the address from which this node reaches the master, empty if it has no route
// there; `alone` means that the whole job is on this machine. The error lists the interfaces that
// would do.
Result<SocketInterfaces> choose_interfaces(const std::vector<NetworkInterface>& interfaces,
                                           const std::string& local_address, bool alone,
                                           const Environment& environment);

}  // namespace cpprun
