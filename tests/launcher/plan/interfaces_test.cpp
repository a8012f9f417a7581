// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/interfaces.h"

#include <doctest/doctest.h>

namespace interfaces_test {

using namespace cpprun;

namespace {

const NetworkInterface lo{"lo", true, true, {"127.0.0.1", "::1"}};
const NetworkInterface eth0{"eth0", true, false, {"10.0.0.5", "fe80::5"}};
const NetworkInterface ib0{"ib0", true, false, {"192.168.1.5", "2001:db8::5"}};
const NetworkInterface down{"eth9", false, false, {"10.9.9.9"}};
const NetworkInterface bare{"veth0", true, false, {}};
const std::vector<NetworkInterface> machine = {lo, eth0, ib0, down, bare};

}  // namespace

TEST_CASE("the interface that reaches the master is used by all libraries, with IPv4 and IPv6") {
  const auto by_v4 = choose_interfaces(machine, "192.168.1.5", false, {});
  CHECK(by_v4 == SocketInterfaces{"ib0", "ib0", "ib0", "ib0"});
  CHECK(choose_interfaces(machine, "2001:db8::5", false, {})->gloo == "ib0");
  CHECK(choose_interfaces(machine, "10.0.0.5", false, {})->gloo == "eth0");
}

TEST_CASE("two nodes on one machine use loopback") {
  CHECK(choose_interfaces(machine, "127.0.0.1", false, {})->gloo == "lo");
}

TEST_CASE("a single machine uses loopback for gloo, and NCCL has no setting") {
  const auto chosen = choose_interfaces(machine, "127.0.0.1", true, {});
  CHECK(chosen == SocketInterfaces{"lo", "lo", std::nullopt, "lo"});
  const auto without = choose_interfaces({eth0}, "127.0.0.1", true, {});
  CHECK(without->gloo == std::nullopt);
}

TEST_CASE("the user's setting is kept, and checked") {
  const auto chosen =
      choose_interfaces(machine, "10.0.0.5", false, {{"GLOO_SOCKET_IFNAME", "ib0"}});
  CHECK(chosen == SocketInterfaces{std::nullopt, "eth0", "eth0", "ib0"});
  CHECK(choose_interfaces(machine, "10.0.0.5", false, {{"GLOO_SOCKET_IFNAME", "eth0,ib0"}}));
  CHECK(choose_interfaces(machine, "10.0.0.5", false, {{"GLOO_SOCKET_IFNAME", "wlan0"}})
            .error()
            .reason ==
        "GLOO_SOCKET_IFNAME=wlan0: wlan0 does not exist on this machine; use eth0 (10.0.0.5)");
  CHECK(choose_interfaces(machine, "10.0.0.5", false, {{"TP_SOCKET_IFNAME", "eth9"}})
            .error()
            .reason.find(": eth9 is down") != std::string::npos);
  CHECK(choose_interfaces(machine, "10.0.0.5", false, {{"GLOO_SOCKET_IFNAME", "veth0"}})
            .error()
            .reason.find(": veth0 has no address") != std::string::npos);
}

TEST_CASE("NCCL's own syntax is supported: prefixes, exact names, exclusions") {
  const auto with = [](const char* value) {
    return choose_interfaces(machine, "10.0.0.5", false, {{"NCCL_SOCKET_IFNAME", value}});
  };
  CHECK(with("eth"));
  CHECK(with("=ib0"));
  CHECK(with("^docker,lo"));
  CHECK_FALSE(with("=ib"));
  CHECK_FALSE(with("mlx"));
}

TEST_CASE("a master without a route to its own address uses an interface that leads out") {
  CHECK(choose_interfaces(machine, "", false, {})->gloo == "eth0");
  CHECK_FALSE(choose_interfaces({lo, down, bare}, "", false, {}).has_value());
}

TEST_CASE("an address of no interface is an error that lists the usable ones") {
  CHECK(choose_interfaces(machine, "172.16.0.1", false, {}).error().reason ==
        "this machine reaches the master from the address 172.16.0.1, but none of its interfaces "
        "has this address\n  hint: set GLOO_SOCKET_IFNAME to one of these: eth0 (10.0.0.5), ib0 "
        "(192.168.1.5)");
}

TEST_CASE("a wrong name is found before the master is reached, in any of the variables") {
  CHECK(check_users_interfaces(machine, false, {}).has_value());
  CHECK(check_users_interfaces(machine, false, {{"GLOO_SOCKET_IFNAME", "eth0"}}).has_value());
  CHECK(check_users_interfaces(machine, false, {{"TP_SOCKET_IFNAME", "eth9"}}).error().reason ==
        "TP_SOCKET_IFNAME=eth9: eth9 is down; use eth0 (10.0.0.5), ib0 (192.168.1.5)");
  CHECK_FALSE(check_users_interfaces(machine, false, {{"NCCL_SOCKET_IFNAME", "=eth"}}).has_value());
  // Only the interface that reaches the master is worth copying, as soon as it is known.
  CHECK(check_users_interfaces(machine, false, {{"TP_SOCKET_IFNAME", "eth9"}}, "192.168.1.5")
            .error()
            .reason == "TP_SOCKET_IFNAME=eth9: eth9 is down; use ib0 (192.168.1.5)");
}

TEST_CASE("--local-addr resolves to the first address that an interface of this machine has") {
  const std::vector<NetworkInterface> own{
      {.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1"}},
      {.name = "eth0", .up = true, .addresses = {"10.0.0.5", "fd00::5"}}};
  CHECK(resolve_local_address("here", {"192.0.2.1", "fd00::5", "10.0.0.5"}, own) ==
        LocalAddress{.address = "fd00::5", .note = ""});
  const LocalAddress elsewhere = resolve_local_address("nat", {"192.0.2.1"}, own);
  CHECK_FALSE(elsewhere.address);
  CHECK(elsewhere.note == "--local-addr=nat has no effect: it is not an address of this machine");
  CHECK_FALSE(resolve_local_address("nowhere", {}, own).address);
}

}  // namespace interfaces_test
