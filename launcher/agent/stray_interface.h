// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Interfaces that exist, are up, and lead nowhere: docker0, lo, a card of another network. Which of
// this machine's interfaces lead to the other nodes is told by the address from which the master is
// reached, and by the addresses of a neighbour: whoever shares a network with it is reached. Pure.
//
// What is found is a doubt and no proof, for a router may join what looks apart; so it is said at
// the start, and becomes the verdict only where the workers fail in the way that it explains.

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/interfaces.h"
#include "proto/environment.h"

namespace cpprun {

// What is known of the way to the others.
struct WayToOthers {
  std::string local_address;           // from which this node reaches the master
  std::vector<std::string> neighbour;  // every address of one other node
};

// Whether two literal addresses are of one network, the first of which has a prefix: "10.0.0.5/24".
bool shares_network(const std::string& network, const std::string& address);

// Says which of the interfaces that the user named leads to nobody; nothing where all do, or where
// everybody is on this machine.
std::optional<std::string> stray_interface(const std::vector<NetworkInterface>& interfaces,
                                           const WayToOthers& way, const Environment& environment);

// The interface for the collectives of a master whose own name means loopback, as Debian writes it
// into /etc/hosts: one that leads to the neighbour. Nothing where the one it has will do.
std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way);

}  // namespace cpprun
