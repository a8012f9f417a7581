// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/meeting_place.h"

#include <doctest/doctest.h>

#include <map>

namespace hosting_test {

using namespace cpprun;

namespace {

const std::map<std::string, std::vector<std::string>> names{{"here", {"10.0.0.5"}},
                                                            {"there", {"10.0.0.6"}},
                                                            {"alpha", {"10.0.0.7"}},
                                                            {"pods", {"10.0.0.5", "10.0.0.6"}}};

Config config_of(RendezvousMode mode, const std::string& host = "there",
                 std::optional<int> node_rank = {}) {
  Config config;
  config.rendezvous = mode;
  config.endpoint = {host, 29400};
  config.nodes_min = config.nodes_max = 2;
  config.node_rank = node_rank;
  return config;
}

// And which names it had to resolve.
struct Decided {
  Result<Hosting> hosting;
  std::vector<std::string> asked;
};

Decided decide(const Config& config) {
  std::vector<std::string> asked;
  auto hosting = decide_hosting(
      config, {.host_name = "alpha",
               .interfaces = {{.name = "eth0", .up = true, .addresses = {"10.0.0.5"}}},
               .addresses_of = [&](const std::string& host) -> std::vector<std::string> {
                 asked.push_back(host);
                 const auto found = names.find(host);
                 return found == names.end() ? std::vector{host} : found->second;
               }});
  return {std::move(hosting), std::move(asked)};
}

constexpr auto by_rank = RendezvousMode::fixed_master;
constexpr auto by_endpoint = RendezvousMode::endpoint;

}  // namespace

TEST_CASE("with ranks only rank 0 hosts, and no name is resolved") {
  CHECK(decide(config_of(by_rank, "there", 0)).hosting == Hosting::must);
  CHECK(decide(config_of(by_rank, "here", 1)).hosting == Hosting::never);
  CHECK(decide(config_of(by_rank, "here", 1)).asked.empty());
}

TEST_CASE("a node alone hosts its own coordinator, unless an endpoint was given") {
  Config config = config_of(RendezvousMode::standalone, "there");
  config.nodes_min = config.nodes_max = 1;
  CHECK(decide(config).hosting == Hosting::must);
  config.rendezvous = by_rank;
  config.node_rank = 0;
  CHECK(decide(config).hosting == Hosting::must);
  config.rendezvous = by_endpoint;
  CHECK(decide(config).hosting == Hosting::never);
  config.endpoint.host = "here";
  CHECK(decide(config).hosting == Hosting::may);
}

TEST_CASE("an endpoint is hosted by the machine it names, whatever the ranks are") {
  CHECK(decide(config_of(by_endpoint, "here")).hosting == Hosting::may);
  CHECK(decide(config_of(by_endpoint, "here", 1)).hosting == Hosting::may);
  CHECK(decide(config_of(by_endpoint, "there", 0)).hosting == Hosting::never);
  CHECK(decide(config_of(by_endpoint, "10.0.0.5")).hosting == Hosting::may);
  CHECK(decide(config_of(by_endpoint, "10.0.0.6")).hosting == Hosting::never);
  CHECK(decide(config_of(by_endpoint, "there")).asked == std::vector<std::string>{"there"});
}

TEST_CASE("without ranks a fixed master is also the machine of its address") {
  CHECK(decide(config_of(by_rank, "here")).hosting == Hosting::may);
  CHECK(decide(config_of(by_rank, "there")).hosting == Hosting::never);
}

TEST_CASE("loopback and the machine's own name mean this machine, whatever the resolver returns") {
  CHECK(decide(config_of(by_endpoint, "localhost")).hosting == Hosting::may);
  CHECK(decide(config_of(by_endpoint, "localhost")).asked.empty());
  CHECK(decide(config_of(by_endpoint, "alpha")).hosting == Hosting::may);
}

TEST_CASE("a name of several machines is rejected") {
  const auto refused = decide(config_of(by_endpoint, "pods")).hosting;
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason.starts_with("\"pods\" resolves to several machines ("));
}

TEST_CASE("is_host overrides ranks, addresses and names") {
  Config config = config_of(by_endpoint, "pods");
  config.is_host = true;
  CHECK(decide(config).hosting == Hosting::must);
  config.is_host = false;
  CHECK(decide(config).hosting == Hosting::never);
  CHECK(decide(config).asked.empty());
  config = config_of(by_rank, "here", 0);
  config.is_host = false;
  CHECK(decide(config).hosting == Hosting::never);
}

TEST_CASE("no node hosts the job of a cluster, not even on the machine of a member") {
  Config config = config_of(by_endpoint, "here", 0);
  config.places = {config.endpoint, {"there", 29400}};
  CHECK(decide(config).hosting == Hosting::never);
  CHECK(decide(config).asked.empty());
  config.nodes_min = config.nodes_max = 1;
  CHECK(decide(config).hosting == Hosting::never);
}

TEST_CASE("the coordinator listens on all addresses, or only on a given loopback address") {
  CHECK(listening_address({"10.0.0.5", 29400}).empty());
  CHECK(listening_address({"here", 29400}).empty());
  CHECK(listening_address({"localhost", 29400}).empty());
  CHECK(listening_address({"127.0.0.1", 29400}) == "127.0.0.1");
  CHECK(listening_address({"::1", 29400}) == "::1");
}

}  // namespace hosting_test
