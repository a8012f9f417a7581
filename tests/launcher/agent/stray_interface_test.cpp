// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/stray_interface.h"

#include <doctest/doctest.h>

using namespace cpprun;

namespace {

const std::vector<NetworkInterface> machine = {
    {"lo", true, true, {"127.0.0.1"}, {"127.0.0.1/8"}},
    {"docker0", true, false, {"172.17.0.1"}, {"172.17.0.1/16"}},
    {"eth0", true, false, {"10.0.0.5", "fd00::5"}, {"10.0.0.5/24", "fd00::5/64"}},
    {"ib0", true, false, {"192.168.1.5"}, {"192.168.1.5/24"}}};
// The other node, which has a docker0 and an ib0 of its own.
const WayToOthers way{"10.0.0.5", {"10.0.0.6", "172.17.0.1", "192.168.1.6"}};

std::optional<std::string> stray(const Environment& environment, const WayToOthers& to = way) {
  return stray_interface(machine, to, environment);
}

}  // namespace

TEST_CASE("two addresses share a network by the first one's prefix, and never with themselves") {
  CHECK(shares_network("10.0.0.5/24", "10.0.0.6"));
  CHECK_FALSE(shares_network("10.0.0.5/24", "10.0.1.6"));
  CHECK(shares_network("10.0.0.5/23", "10.0.1.6"));
  CHECK(shares_network("fd00::5/64", "fd00::6"));
  CHECK_FALSE(shares_network("fd00::5/64", "10.0.0.6"));
  CHECK_FALSE(shares_network("172.17.0.1/16", "172.17.0.1"));
  CHECK_FALSE(shares_network("10.0.0.5/32", "10.0.0.6"));
  CHECK_FALSE(shares_network("nonsense", "10.0.0.6"));
}

TEST_CASE("an interface that leads nowhere is named, with the one that would do") {
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "docker0"}}) ==
        "GLOO_SOCKET_IFNAME=docker0: docker0 (172.17.0.1) shares no network with the other nodes, "
        "one of which has 10.0.0.6, 192.168.1.6; workers that use it will not find each other; "
        "unset GLOO_SOCKET_IFNAME, or name eth0 (10.0.0.5), which leads to them");
  CHECK(stray({{"NCCL_SOCKET_IFNAME", "=lo"}})
            ->find("NCCL_SOCKET_IFNAME==lo: lo (127.0.0.1) never leaves this machine") == 0);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0,docker0"}})->find("docker0 (172.17.0.1)") !=
        std::string::npos);
}

TEST_CASE("the master's interface, one of a shared network and names left out are no strays") {
  CHECK(stray({}) == std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0"}}) == std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "ib0"}, {"NCCL_SOCKET_IFNAME", "^docker0,lo"}}) ==
        std::nullopt);
  // Two routed networks: the way to the master is one, whatever the prefix says.
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0"}}, {"10.0.0.5", {"10.9.0.6"}}) == std::nullopt);
}

TEST_CASE("several nodes on one machine may use whatever it has") {
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "lo"}}, {"127.0.0.1", {"10.0.0.5", "172.17.0.1"}}) ==
        std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "lo"}}, {"127.0.0.1", {}}) == std::nullopt);
}

TEST_CASE("a master that is its own loopback by name goes over a card that leads to the others") {
  CHECK(better_than_loopback(machine, {"127.0.1.1", {"10.0.0.6"}}) == "eth0");
  CHECK(better_than_loopback(machine, {"127.0.1.1", {"10.0.0.5"}}) == std::nullopt);
  CHECK(better_than_loopback(machine, {"10.0.0.5", {"10.0.0.6"}}) == std::nullopt);
  CHECK(better_than_loopback(machine, {"127.0.0.1", {"10.9.0.6"}}) == std::nullopt);
}
