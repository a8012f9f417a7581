// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/misconfiguration.h"

#include <doctest/doctest.h>

namespace stray_interface_test {

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
  return unreachable_interface(machine, to, environment);
}

}  // namespace

TEST_CASE(
    "two addresses share a network by the first one's prefix, and an address none with itself") {
  CHECK(shares_network("10.0.0.5/24", "10.0.0.6"));
  CHECK_FALSE(shares_network("10.0.0.5/24", "10.0.1.6"));
  CHECK(shares_network("10.0.0.5/23", "10.0.1.6"));
  CHECK(shares_network("fd00::5/64", "fd00::6"));
  CHECK_FALSE(shares_network("fd00::5/64", "10.0.0.6"));
  CHECK_FALSE(shares_network("172.17.0.1/16", "172.17.0.1"));
  CHECK_FALSE(shares_network("10.0.0.5/32", "10.0.0.6"));
  CHECK_FALSE(shares_network("nonsense", "10.0.0.6"));
}

TEST_CASE("an unreachable interface is named, with an alternative") {
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "docker0"}}) ==
        "GLOO_SOCKET_IFNAME=docker0: docker0 (172.17.0.1) shares no network with the other nodes "
        "(for example 10.0.0.6, 192.168.1.6); workers on this interface cannot "
        "connect to each other; "
        "unset GLOO_SOCKET_IFNAME, or name eth0 (10.0.0.5), which leads to the other nodes");
  CHECK(stray({{"NCCL_SOCKET_IFNAME", "=lo"}})
            ->find("NCCL_SOCKET_IFNAME==lo: lo (127.0.0.1) is a loopback interface") == 0);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0,docker0"}})->find("docker0 (172.17.0.1)") !=
        std::string::npos);
}

TEST_CASE("the master's interface, shared networks and excluded names are not unreachable") {
  CHECK(stray({}) == std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0"}}) == std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "ib0"}, {"NCCL_SOCKET_IFNAME", "^docker0,lo"}}) ==
        std::nullopt);
  // Two routed networks: the route to the master is valid, whatever the prefix.
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "eth0"}}, {"10.0.0.5", {"10.9.0.6"}}) == std::nullopt);
}

TEST_CASE("several nodes on one machine may use any of its interfaces") {
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "lo"}}, {"127.0.0.1", {"10.0.0.5", "172.17.0.1"}}) ==
        std::nullopt);
  CHECK(stray({{"GLOO_SOCKET_IFNAME", "lo"}}, {"127.0.0.1", {}}) == std::nullopt);
}

TEST_CASE("a master whose name is loopback uses an interface that reaches the other nodes") {
  CHECK(better_than_loopback(machine, {"127.0.1.1", {"10.0.0.6"}}) == "eth0");
  CHECK(better_than_loopback(machine, {"127.0.1.1", {"10.0.0.5"}}) == std::nullopt);
  CHECK(better_than_loopback(machine, {"10.0.0.5", {"10.0.0.6"}}) == std::nullopt);
  CHECK(better_than_loopback(machine, {"127.0.0.1", {"10.9.0.6"}}) == std::nullopt);
}

TEST_CASE("the addresses of a failed connection are read from the lines of gloo and NCCL") {
  using Lines = std::vector<std::string>;
  const std::string gloo =
      "RuntimeError: Gloo connectFullMesh failed with "
      "[/pytorch/third_party/gloo/gloo/transport/tcp/"
      "pair.cc:152] timed out connecting: SO_ERROR: No route to host, remote=[10.78.0.1]:10633$1";
  const std::string retry =
      "[/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, "
      "willRetry=0, retry=3, retryLimit=3, rank=1, size=2, local=[10.78.0.2]:36498, "
      "remote=[10.78.0.1]:10633$1, error=SO_ERROR: No route to host, remote=[10.78.0.1]:10633$1";
  CHECK(failed_connection({gloo}) == FailedConnection{"", "10.78.0.1"});
  CHECK(failed_connection({retry, "Traceback", gloo}) ==
        FailedConnection{"10.78.0.2", "10.78.0.1"});
  CHECK(
      failed_connection({"RuntimeError: [gloo/transport/tcp/pair.cc:799] connect [10.78.0.1]:1205: "
                         "No route to host"}) == FailedConnection{"", "10.78.0.1"});
  // A connection that had been established, the store's, and lines without an address.
  for (const char* other :
       {"RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.78.0.1]:1234",
        "[W1126 socket.cpp:764] [c10d] The client socket has failed to connect to "
        "[10.77.0.1]:29501 "
        "(errno: 111 - Connection refused).",
        "connect to host <unknown>", "cannot connect to the data base [cars]"}) {
    CAPTURE(other);
    CHECK(failed_connection(Lines{other}) == std::nullopt);
  }
}

// As NCCL's src/misc/socket.cc and src/os/linux.cc write them, after the prefix of every log line.
// A line that several versions share is listed once.
TEST_CASE("the address that NCCL 2.18 to 2.30 could not connect to is read from its lines") {
  const std::string warn = "node1:4711:4790 [0] misc/socket.cc:466 NCCL WARN ";
  const std::string info = "node1:4711:4790 [0] NCCL INFO ";
  for (const std::string& line : {
           // 2.18 to 2.26
           warn + "socketStartConnect: Connect to 10.78.0.1<35621> failed : No route to host",
           // 2.20 to 2.23
           warn + "socketPollConnect: Connect to 10.78.0.1<35621> returned 113(No route to host) "
                  "errno 115(Operation now in progress)",
           // 2.24 to 2.26
           warn + "socketPollConnect: Connect to 10.78.0.1<35621> failed : No route to host",
           // 2.27 and 2.28
           warn + "socketPollConnect: connect to 10.78.0.1<35621> returned No route to host, "
                  "exceeded error retry count after 35 attempts",
           info + "socketPollConnect: connect to 10.78.0.1<35621> returned Connection timed out, "
                  "retrying (3/34) after sleep for 300 msec",
           warn + "socketStartConnect: connect to 10.78.0.1<35621> failed : Network is unreachable",
           warn + "socketPollConnect to 10.78.0.1<35621> failed with error Bad file descriptor",
           // 2.30
           warn + "ncclOsSocketPollConnect: connect to 10.78.0.1<35621> returned No route to host, "
                  "exceeded error retry count after 35 attempts",
           warn + "ncclOsSocketStartConnect: connect to 10.78.0.1<35621> failed : No route to host",
           warn + "ncclOsSocketPollConnect to 10.78.0.1<35621> failed with error Bad file "
                  "descriptor",
       }) {
    CAPTURE(line);
    CHECK(failed_connection({line}) == FailedConnection{"", "10.78.0.1"});
  }
  CHECK(failed_connection({warn + "socketPollConnect: connect to fd78::1<47021> returned No route "
                                  "to host, exceeded error retry count after 35 attempts"}) ==
        FailedConnection{"", "fd78::1"});
  // The scope of a link-local address names an interface of this node.
  CHECK(failed_connection({warn + "socketStartConnect: connect to fe80::a:1%ib0<47021> failed : "
                                  "No route to host"}) == FailedConnection{"", "fe80::a:1"});
  // Without an address (2.18 to 2.26), and connections that had been established.
  for (const std::string& line : {
           warn + "socketStartConnect: exceeded retries (20000)",
           warn + "socketPollConnect: exceeded timeouts (3)",
           info + "Call to connect returned Connection refused, retrying",
           warn + "socketPollConnect: connect returned No route to host, exceeded error retry "
                  "count (35)",
           warn + "socketPollConnect poll() failed with error Bad file descriptor",
           warn + "socketProgress: Connection closed by remote peer node0<35621>",
           warn + "socketProgressOpt: Call to recv from 10.78.0.1<35621> failed : Connection reset "
                  "by peer",
       }) {
    CAPTURE(line);
    CHECK(failed_connection({line}) == std::nullopt);
  }
}

TEST_CASE("an unconnected interface is named, with its variable and an alternative") {
  const FailedConnection from_ib{"192.168.1.5", "192.168.1.6"};
  const std::string verdict =
      "GLOO_SOCKET_IFNAME=ib0: ib0 (192.168.1.5) cannot connect to 192.168.1.6; unset "
      "GLOO_SOCKET_IFNAME, or name eth0 (10.0.0.5), which leads to the other nodes";
  const Environment gloo{{"GLOO_SOCKET_IFNAME", "ib0"}};
  CHECK(unconnected_interface(machine, way, gloo, from_ib) == verdict);
  CHECK(unconnected_interface(machine, way, gloo, {"", "192.168.1.6"}) == verdict);
  // At the master, by the source address of the first other node.
  CHECK(unconnected_interface(machine, {"127.0.0.1", way.neighbour}, gloo, from_ib) == verdict);
  // The other node was configured to use its ib0, and this one was not.
  CHECK(unconnected_interface(machine, way, {}, {"10.0.0.5", "192.168.1.6"}) ==
        "eth0 (10.0.0.5) cannot connect to 192.168.1.6; that node can be reached at 10.0.0.6, so "
        "correct GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME on that node");
  CHECK(unconnected_interface(machine, way, {}, {"", "192.168.1.6"})->starts_with("eth0 ("));
  CHECK(
      unconnected_interface(machine, way, {}, from_ib) ==
      "ib0 (192.168.1.5) cannot connect to 192.168.1.6; eth0 (10.0.0.5) leads to the other nodes");
  // The interface that reaches them, an address of this machine, and one of no network here.
  CHECK(unconnected_interface(machine, way, gloo, {"10.0.0.5", "10.0.0.6"}) == std::nullopt);
  CHECK(unconnected_interface(machine, way, gloo, {"", "10.0.0.6"}) == std::nullopt);
  CHECK(unconnected_interface(machine, way, gloo, {"", "192.168.1.5"}) == std::nullopt);
  CHECK(unconnected_interface(machine, way, gloo, {"", "10.9.9.9"}) == std::nullopt);
}

}  // namespace stray_interface_test
