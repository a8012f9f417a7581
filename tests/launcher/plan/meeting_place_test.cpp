// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/meeting_place.h"

#include <doctest/doctest.h>

namespace meeting_place_test {

using namespace cpprun;

namespace {

const std::vector<NetworkInterface> machine = {
    {.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1", "::1"}},
    {.name = "eth0", .up = true, .addresses = {"10.0.0.5", "fe80::5"}},
    {.name = "ib0", .up = true, .addresses = {"192.168.1.5"}},
    {.name = "eth9", .up = false, .addresses = {"10.9.9.9"}}};

Config config_of(RendezvousMode mode, const std::string& host, std::optional<int> node_rank = {}) {
  Config config;
  config.rendezvous = mode;
  config.endpoint = {host, 29400};
  config.place_by_endpoint = mode == RendezvousMode::endpoint;
  config.nodes_min = config.nodes_max = 2;
  config.node_rank = node_rank;
  return config;
}

const Config by_rank = config_of(RendezvousMode::fixed_master, "trainer", 0);
const Config by_endpoint = config_of(RendezvousMode::endpoint, "trainer");

}  // namespace

TEST_CASE("addresses are loopback, of this machine, of others, or shared") {
  CHECK(whose({}, machine) == Whose::unknown);
  CHECK(whose({"127.0.1.1"}, machine) == Whose::loopback);
  CHECK(whose({"::1", "127.0.0.1"}, machine) == Whose::loopback);
  CHECK(whose({"10.0.0.5"}, machine) == Whose::ours);
  CHECK(whose({"127.0.1.1", "10.0.0.5"}, machine) == Whose::ours);
  CHECK(whose({"fe80::5%eth0"}, machine) == Whose::ours);
  CHECK(whose({"10.0.0.6"}, machine) == Whose::others);
  CHECK(whose({"10.0.0.5", "10.0.0.6"}, machine) == Whose::shared);
  CHECK(whose({"127.0.0.1", "10.0.0.6"}, machine) == Whose::shared);
  CHECK(those_of_others({"10.0.0.5", "10.0.0.6"}, machine) == std::vector<std::string>{"10.0.0.6"});
}

TEST_CASE("a name of several machines is rejected, with one address for all of them") {
  CHECK(*is_meant(by_endpoint, {"10.0.0.5"}, machine));
  CHECK_FALSE(*is_meant(by_endpoint, {"10.0.0.6"}, machine));
  CHECK_FALSE(*is_meant(by_endpoint, {}, machine));
  const auto refused = is_meant(by_endpoint, {"10.0.0.5", "10.0.0.4"}, machine);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason ==
        "\"trainer\" resolves to several machines (10.0.0.5 is this machine, 10.0.0.4 is not), and "
        "each would become the master of its own job; start every node with "
        "--rdzv-endpoint=10.0.0.4:29400 (in a StatefulSet, the name of the first pod), or set "
        "--rdzv-conf=is_host=true on the master and is_host=false on all other nodes");
  // The loopback address belongs to every machine, so it is not offered.
  CHECK(is_meant(by_endpoint, {"127.0.1.1", "10.0.0.4"}, machine)
            .error()
            .reason.find("with --rdzv-endpoint=10.0.0.4:29400 ") != std::string::npos);
}

TEST_CASE("a master whose address belongs to another machine is warned at once") {
  CHECK(doubt_of_master(by_rank, {"10.0.0.5"}, machine) == std::nullopt);
  CHECK(doubt_of_master(by_rank, {"10.0.0.5", "10.0.0.6"}, machine) == std::nullopt);
  const auto doubt = doubt_of_master(by_rank, {"10.0.0.6"}, machine);
  REQUIRE(doubt);
  CHECK(doubt->strong);
  CHECK(doubt->sentence ==
        "the master's address trainer (10.0.0.6) is not an address of this machine (this machine "
        "has 10.0.0.5 (eth0), 192.168.1.5 (ib0)); start every node with --master-addr=10.0.0.5, "
        "unless a Service, a NAT or a forwarded port leads here");
}

TEST_CASE("a loopback endpoint causes a warning if other nodes are expected") {
  auto config = config_of(RendezvousMode::endpoint, "localhost");
  const auto doubt = doubt_of_master(config, {"127.0.0.1", "::1"}, machine);
  REQUIRE(doubt);
  CHECK_FALSE(doubt->strong);
  CHECK(doubt->sentence ==
        "localhost is only reachable from this machine; for a multi-node job, start every node "
        "with an address of the master, such as --rdzv-endpoint=10.0.0.5:29400");
  config.nodes_min = config.nodes_max = 1;
  CHECK(doubt_of_master(config, {"127.0.0.1"}, machine) == std::nullopt);
}

TEST_CASE("a machine without an address of its own still gets a warning") {
  const auto doubt = doubt_of_master(by_rank, {"10.0.0.6"}, {machine.front()});
  REQUIRE(doubt);
  CHECK(doubt->sentence.find("has no address that other machines can use") != std::string::npos);
  CHECK(doubt->sentence.find("--master-addr=HOST") != std::string::npos);
}

TEST_CASE("a node that dials itself or another machine gets a hint for that case") {
  auto config = config_of(RendezvousMode::fixed_master, "10.0.0.5", 1);
  CHECK(hint_for_dialler(config, {"10.0.0.5"}, machine) ==
        "; 10.0.0.5 is this machine (--node-rank=1), but the master is the node with "
        "--node-rank=0; set --master-addr on every node to the address of that node, or start this "
        "node with --node-rank=0");
  CHECK(hint_for_dialler(config, {"10.0.0.6"}, machine) ==
        "; check that the node with --node-rank=0 is running there, with the same --master-addr");
  CHECK(hint_for_dialler(config, {}, machine) == "");
  config = config_of(RendezvousMode::endpoint, "127.0.0.1");
  CHECK(hint_for_dialler(config, {"127.0.0.1"}, machine).find("is_host=false") !=
        std::string::npos);
  CHECK(hint_for_dialler(config, {"10.0.0.6"}, machine) ==
        "; check that a node is running on that machine");
  // Its own cpprund, started because of etcd: the user has no flag that forbids it to host.
  config.etcd = EtcdMeeting{};
  const auto own = hint_for_dialler(config, {"10.0.0.5"}, machine);
  CHECK(own.find("is_host") == std::string::npos);
  CHECK(own.find("the rendezvous process of this node") != std::string::npos);
}

TEST_CASE("a master that cannot resolve its own name gets a hint with its addresses") {
  CHECK(unresolved_text(by_rank, "Host not found", machine) ==
        "cannot resolve \"trainer\" (Host not found) on this machine, the master, so its workers "
        "would not find the store; add the name to /etc/hosts or DNS, or start every node with an "
        "address of this machine (10.0.0.5 (eth0), 192.168.1.5 (ib0))");
  CHECK(unresolved_for_others(by_rank, "Host not found") ==
        "the master is running, but cannot resolve its own name \"trainer\" (Host not found)");
}

}  // namespace meeting_place_test
