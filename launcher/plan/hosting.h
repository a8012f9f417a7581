// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether this node hosts the coordinator. Node rank 0 does, where ranks were given; otherwise the
// machine that the endpoint names; nobody where it names a set of daemons. Pure: io/addresses
// resolves names.

#include <functional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "proto/result.h"

namespace cpprun {

enum class Hosting {
  must,   // here or nowhere: the job fails if the port cannot be had
  may,    // any node on this machine: the first one gets the port, and the others join it
  never,  // another node hosts it, or a daemon
};

// The literal addresses a host name stands for. It may wait for a name server, so it is asked only
// where the answer depends on it.
using AddressProbe = std::function<std::vector<std::string>(const std::string& host)>;

struct HostingFacts {
  std::string host_name;  // this machine's own
  std::vector<NetworkInterface> interfaces;
  AddressProbe addresses_of;
};

// Fails where the endpoint's name means several machines: each would take itself for the master.
Result<Hosting> decide_hosting(const Config& config, const HostingFacts& facts);

// The address the coordinator listens on; empty: on every one. Only a literal loopback address
// keeps it off the network: "localhost" may be a habit of somebody who has other nodes.
std::string listening_address(const Endpoint& endpoint);

}  // namespace cpprun
