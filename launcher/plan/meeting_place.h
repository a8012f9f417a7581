// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the nodes of a job meet: whose address that is, who hosts the coordinator there, how etcd
// is asked for it, and what a secret means for it. Pure: names are resolved in io/addresses.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "launcher/endpoint.h"
#include "launcher/plan/interfaces.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

// Whether the address at which the nodes meet is this machine's, as far as it can tell, and the
// sentences that help somebody who got it wrong. Pure: names are resolved in io/addresses.
//
// An address that is not this machine's may still be the right one for its master: a Kubernetes
// Service, a NAT or a forwarded port leads here and no interface shows it. So what may work is
// questioned aloud and tried; only what cannot work is refused.
enum class Whose {
  nobodys,   // no address is known for it
  loopback,  // each machine's own, and none of the others'
  ours,
  others,
  shared,  // a name that stands for this machine and for others
};

// Whose a host's literal addresses are.
Whose whose(const std::vector<std::string>& addresses,
            const std::vector<NetworkInterface>& interfaces);

// Those of them that are not this machine's.
std::vector<std::string> those_of_others(const std::vector<std::string>& addresses,
                                         const std::vector<NetworkInterface>& interfaces);

// "10.0.0.5 (eth0), 192.168.1.5 (ib0)": what others may know this machine by.
std::string own_addresses_text(const std::vector<NetworkInterface>& interfaces);

// Whether this machine is the one the endpoint means. Fails for a name that means several machines:
// each of them would take itself for the master.
Result<bool> is_meant(const Config& config, const std::vector<std::string>& addresses,
                      const std::vector<NetworkInterface>& interfaces);

struct Doubt {
  std::string sentence;
  // Right only if some NAT or forwarding makes it so. Weaker doubts are worth a word only while
  // somebody is waited for.
  bool strong = false;
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

// The warning to the master about the address at which it is to be met.
std::optional<Doubt> doubt_of_master(const Config& config,
                                     const std::vector<std::string>& addresses,
                                     const std::vector<NetworkInterface>& interfaces);

// The hint to a node that found no master at these addresses; empty, or begins with "; ".
std::string hint_for_dialler(const Config& config, const std::vector<std::string>& addresses,
                             const std::vector<NetworkInterface>& interfaces);

// The master cannot resolve its own name, so its workers would not find their store.
std::string unresolved_text(const Config& config, const std::string& why,
                            const std::vector<NetworkInterface>& interfaces);

// The same for the others, who wait for this master meanwhile.
std::string unresolved_for_others(const Config& config, const std::string& why);

// Whether this node hosts the coordinator. Node rank 0 does, where ranks were given; otherwise the
// machine that the endpoint names; nobody where it names a set of daemons. Pure: io/addresses
// resolves names.
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

// A job whose nodes meet by etcd alone (--rdzv-backend=etcd, etcd-v2). Each of them begins a
// cpprund of its own, on a port of its choice; etcd says which of these leads, the next ones have
// everything that it has, and nodes are told where it is. So whichever node is lost, the job goes
// on, and with the last node nothing is left of it.

struct EtcdMembers {
  Endpoint first;
  std::string all;  // as a cpprund takes them
};
// "a,b:2379" or "http://a:2379": those that do not say are asked securely, or not.
Result<EtcdMembers> etcd_endpoints(std::string_view text, bool is_secure);

// What the cppruns of a job are called in etcd: no two jobs alike, of the same or of another
// prefix.
std::string etcd_cluster(std::string_view prefix, std::string_view job);

// How the cpprund of this node runs; it is met at that address.
DaemonOptions own_daemon_options(const Config& config, const std::string& name,
                                 const std::string& address, Secrets secrets);

// What a job with or without a secret means for this node.

// One node by itself, at a loopback port that nobody was told, meets nobody to prove anything to.
bool uses_secret(const Config& config);

// What --store=… means then; an answer, never `automatic`.
StoreWay settle_store(const Config& config, bool has_secret);

// Why the job cannot go without a secret, with what makes one; nothing where it can.
std::optional<std::string> missing_secret(const Config& config);

// What is said at the start where this node hosts the store of a job of several nodes, there is no
// secret, and nobody has wanted to hear nothing of it. `address` is one at which it is reached.
std::optional<std::string> open_port_note(const Config& config, std::string_view address);

// What cpprun itself was started with, for the workers: where the secret lies is none of their
// business, and they pass on what they get to programs of all kinds.
Environment without_secret_place(Environment environment);

}  // namespace cpprun
