// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Interfaces that exist, are up, and lead nowhere: docker0, lo, a card on another network. An
// interface leads to the other nodes if it carries the address from which the master is reached, or
// shares a network with one of a neighbour's addresses. Pure.
//
// This is a suspicion, not proof, since a router may join networks that look separate. So it is a
// warning at the start, and becomes the verdict only if the workers fail in the way it predicts.
//
// An interface can also look right, on the same network as its namesake of another node, and not be
// connected to it. The proof is in the failure: the addresses between which no connection came up.

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

// The warning about an interface the user named that leads nowhere; nothing if there is none, or if
// the whole job is on this machine.
std::optional<std::string> stray_interface(const std::vector<NetworkInterface>& interfaces,
                                           const WayToOthers& way, const Environment& environment);

// A connection that did not come up, by what gloo or NCCL wrote.
struct FailedConnection {
  std::string local;   // empty: it does not say
  std::string remote;  // numeric
  friend bool operator==(const FailedConnection&, const FailedConnection&) = default;
};
// The last one in those lines.
std::optional<FailedConnection> failed_connection(const std::vector<std::string>& lines);

// The same as a verdict: the interface of a failed connection, where another one leads to the
// others. Nothing where that is the interface that leads to them, or is not known.
std::optional<std::string> unconnected_interface(const std::vector<NetworkInterface>& interfaces,
                                                 const WayToOthers& way,
                                                 const Environment& environment,
                                                 const FailedConnection& connection);

// For a master whose own name resolves to loopback, as Debian's /etc/hosts has it: the interface
// that leads to the neighbour. Nothing if the one chosen already will do.
std::optional<std::string> better_than_loopback(const std::vector<NetworkInterface>& interfaces,
                                                const WayToOthers& way);

}  // namespace cpprun
