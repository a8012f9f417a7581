// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/hosting.h"

#include "launcher/plan/meeting_place.h"

namespace cpprun {

namespace {

// By any of its names, aliases and addresses.
Result<bool> is_this_machine(const Config& config, const HostingFacts& facts) {
  const std::string& host = config.endpoint.host;
  if (is_loopback(host)) return true;
  auto meant = is_meant(config, facts.addresses_of(host), facts.interfaces);
  // Its own name is its own, whatever it resolves to, unless others go by it as well.
  if (meant && host == facts.host_name) return true;
  return meant;
}

}  // namespace

Result<Hosting> decide_hosting(const Config& config, const HostingFacts& facts) {
  if (config.meets_at_a_set()) return Hosting::never;
  if (config.is_host) return *config.is_host ? Hosting::must : Hosting::never;
  // An endpoint may be somebody else's, a daemon's, even for a job of one node.
  if (config.rendezvous != RendezvousMode::endpoint) {
    if (config.nodes_max == 1) return Hosting::must;
    if (config.node_rank) return *config.node_rank == 0 ? Hosting::must : Hosting::never;
  }
  const auto meant = is_this_machine(config, facts);
  if (!meant) return tl::unexpected(meant.error());
  return *meant ? Hosting::may : Hosting::never;
}

std::string listening_address(const Endpoint& endpoint) {
  return endpoint.host != "localhost" && is_loopback(endpoint.host) ? endpoint.host : "";
}

}  // namespace cpprun
