// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the nodes of a job meet: which machine has that address, which node hosts the coordinator,
// how etcd is used to find it, and what the job's secret changes. Pure: names are resolved in
// io/addresses.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

// Whether the rendezvous address belongs to this machine, and the messages for a wrong one. Pure:
// names are resolved in io/addresses.
//
// An address that no interface of this machine has may still be right for its coordinator: a
// Kubernetes Service, NAT or a forwarded port may lead here. So an address that might work gives a
// warning and is tried. Only an address that cannot work is rejected.
enum class Whose {
  unknown,   // no address is known
  loopback,  // every machine has it for itself, and no other machine can reach it
  ours,
  others,
  shared,  // a name that resolves to this machine and to others
};

// Which machine the literal addresses of a host belong to.
Whose whose(const std::vector<std::string>& addresses,
            const std::vector<NetworkInterface>& interfaces);

// "10.0.0.5 (eth0), 192.168.1.5 (ib0)": addresses under which other nodes may reach this machine.
std::string own_addresses_text(const std::vector<NetworkInterface>& interfaces);

// Whether the endpoint refers to this machine. Fails for a name that resolves to several machines:
// each of them would take the coordinator's role.
Result<bool> is_meant(const Config& config, const std::vector<std::string>& addresses,
                      const std::vector<NetworkInterface>& interfaces);

struct Doubt {
  std::string sentence;
  // The address works only with NAT or port forwarding. Weaker doubts are printed only while the
  // node is waiting for others.
  bool strong = false;
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

// A warning for the coordinator's node about the address at which others should reach it.
std::optional<Doubt> doubt_of_master(const Config& config,
                                     const std::vector<std::string>& addresses,
                                     const std::vector<NetworkInterface>& interfaces);

// A hint for a node that found no coordinator at these addresses. Empty, or begins with "; ".
std::string hint_for_dialler(const Config& config, const std::vector<std::string>& addresses,
                             const std::vector<NetworkInterface>& interfaces);

// The error if the coordinator's node cannot resolve its own name: its workers would not find the
// store.
std::string unresolved_text(const Config& config, const std::string& why,
                            const std::vector<NetworkInterface>& interfaces);

// The same for the other nodes, which are waiting for this coordinator.
std::string unresolved_for_others(const Config& config, const std::string& why);

// Whether this node hosts the coordinator. If ranks were given, node rank 0 does; otherwise the
// machine that the endpoint names. No node does if the endpoint lists daemons. Pure: io/addresses
// resolves names.
enum class Hosting {
  must,   // this node and no other: the job fails if the port cannot be bound
  may,    // any node on this machine: the first to bind the port hosts, the others join it
  never,  // another node or a daemon hosts it
};

// The literal addresses of a host name. It may block on a name server, so it is called only if the
// result depends on it.
using AddressProbe = std::function<std::vector<std::string>(const std::string& host)>;

struct HostingFacts {
  std::string host_name;  // of this machine
  std::vector<NetworkInterface> interfaces;
  AddressProbe addresses_of;
};

// Fails if the endpoint's name resolves to several machines: each would take the coordinator's
// role.
Result<Hosting> decide_hosting(const Config& config, const HostingFacts& facts);

// The address the coordinator listens on; empty: all addresses. Only a literal loopback address
// restricts it to this machine. "localhost" does not, because it is often used by habit in
// multi-node jobs.
std::string listening_address(const Endpoint& endpoint);

// A job whose nodes meet only by etcd (--rdzv-backend=etcd, etcd-v2). Each node starts its own
// cpprund on a free port. etcd elects the leader, some others replicate its state as standbys, and
// nodes learn the leader's address from etcd. So the job survives the loss of any node, and nothing
// of it remains after the last one.

struct EtcdMembers {
  Endpoint first;
  std::string all;  // in the format that cpprund expects
};
// "a,b:2379" or "http://a:2379". `is_secure` applies to endpoints without a scheme.
Result<EtcdMembers> etcd_endpoints(std::string_view text, bool is_secure);

// The cluster name of a job's cpprunds in etcd. Different jobs or prefixes have different names.
std::string etcd_cluster(std::string_view prefix, std::string_view job);

// The options of this node's own cpprund, which is reached at `address`.
DaemonOptions own_daemon_options(const Config& config, const std::string& name,
                                 const std::string& address, Secrets secrets);

// What a job with or without a secret means for this node.

// False for a single node on a random loopback port: it has no peer to authenticate.
bool uses_secret(const Config& config);

// Resolves --store=… for this job; never returns `automatic`.
StoreWay resolve_store(const Config& config, bool has_secret);

// The error, with a hint on creating a secret, if the job needs one and has none; otherwise
// nullopt.
std::optional<std::string> missing_secret(const Config& config);

// The note at the start if this node hosts the store of a multi-node job without a secret, unless
// the user suppressed it. `address` is one at which the store is reachable.
std::optional<std::string> open_port_note(const Config& config, std::string_view address);

// The environment for the workers. It must not show them where the secret is, since they pass it on
// to arbitrary programs.
Environment without_secret_path(Environment environment);

}  // namespace cpprun
