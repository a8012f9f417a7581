// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job whose nodes meet by etcd alone (--rdzv-backend=etcd, etcd-v2). Each of them begins a
// cpprund of its own, on a port of its choice; etcd says which of these leads, the next ones have
// everything that it has, and nodes are told where it is. So whichever node is lost, the job goes
// on, and with the last node nothing is left of it.

#include <string>
#include <string_view>

#include "launcher/config.h"
#include "launcher/endpoint.h"
#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"

namespace cpprun {

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

}  // namespace cpprun
