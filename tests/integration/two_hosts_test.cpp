// SPDX-License-Identifier: BSD-3-Clause
// Two nodes on two hosts with addresses of their own, several cards each, over IPv4 and IPv6.

#include <doctest/doctest.h>

#include "tests/integration/command.h"
#include "tests/integration/hosts.h"

namespace two_hosts_test {

using namespace cpprun::integration;

namespace {

Words node(int rank, const std::string& master, const Words& actions) {
  Words words = {"--nnodes=2", "--nproc_per_node=2", "--node_rank=" + std::to_string(rank),
                 "--master_addr=" + master, "--master_port=29500"};
  words.push_back(worker());
  words.insert(words.end(), actions.begin(), actions.end());
  return with_cpprun(words);
}

// Runs both nodes, the second first, and expects both to succeed.
std::pair<Ended, Ended> run_both(const Hosts& hosts, const std::string& master,
                                 const Words& actions, const Options& options = {}) {
  Command second(hosts.on(1, node(1, master, actions)), options);
  Command first(hosts.on(0, node(0, master, actions)), options);
  auto of_first = first.wait();
  auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  return {std::move(of_first), std::move(of_second)};
}

// Asks the store at both addresses of node 0: a greeting of today's clients, a ping, and its
// answer.
constexpr const char* ping_both = R"sh(
for address in 10.77.0.1 fd77::1; do
  exec 3<>"/dev/tcp/$address/$MASTER_PORT"
  printf '\000\316\367\205\074\015\007\000\000\000' >&3
  echo "rank $RANK at $address:$(head -c 4 <&3 | od -An -tx1)"
done)sh";

}  // namespace

TEST_CASE("workers on two hosts are given the card that leads to the master") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const auto [first, second] = run_both(hosts, Hosts::address(0), {"environment"});
  for (const auto* said : {&first.out, &second.out}) {
    CHECK(count(*said, "GLOO_SOCKET_IFNAME=fabric0\n") == 2);
    CHECK(count(*said, "TP_SOCKET_IFNAME=fabric0\n") == 2);
    CHECK(count(*said, "NCCL_SOCKET_IFNAME=fabric0\n") == 2);
    CHECK(count(*said, "\nMASTER_ADDR=" + Hosts::address(0) + "\n") == 2);
    CHECK(count(*said, "MASTER_PORT=29500\n") == 2);
  }
}

TEST_CASE("two hosts meet over IPv6, with and without brackets") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  for (const auto& master : {Hosts::address_v6(0), "[" + Hosts::address_v6(0) + "]"}) {
    const auto [first, second] = run_both(hosts, master, {"environment"});
    CHECK(count(second.out, "GLOO_SOCKET_IFNAME=fabric0\n") == 2);
    CHECK(count(second.out, "\nRANK=3\n") == 1);
  }
}

TEST_CASE("workers reach the store at every address of the master's name") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const auto words = [](int rank) {
    return with_cpprun({"--nnodes=2", "--node_rank=" + std::to_string(rank), "--master_addr=master",
                        "--master_port=29500", "--no-python", "bash", "-c", ping_both});
  };
  for (int host = 0; host < 2; ++host) {
    hosts.know(host, Hosts::address(0) + " master\n" + Hosts::address_v6(0) + " master\n");
  }
  Command second(hosts.on(1, words(1)));
  Command first(hosts.on(0, words(0)));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  for (const std::string& address : {Hosts::address(0), Hosts::address_v6(0)}) {
    CHECK(contains(of_first.out, "rank 0 at " + address + ": 07 00 00 00\n"));
    CHECK(contains(of_second.out, "rank 1 at " + address + ": 07 00 00 00\n"));
  }
}

TEST_CASE("a card that the user chose is kept, and a missing one is rejected with a list") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const Options chosen{.variables = {{"GLOO_SOCKET_IFNAME", Hosts::blind}}};
  const auto [first, second] = run_both(hosts, Hosts::address(0), {"environment"}, chosen);
  CHECK(count(first.out, "GLOO_SOCKET_IFNAME=blind0\n") == 2);
  CHECK(count(second.out, "GLOO_SOCKET_IFNAME=blind0\n") == 2);
  const Options wrong{.variables = {{"GLOO_SOCKET_IFNAME", "nope0"}}};
  const auto refused = run(hosts.on(0, node(0, Hosts::address(0), {"say", "started"})), wrong);
  CHECK(refused.code != 0);
  CHECK(refused.out == "");
  CHECK(contains(refused.err, "nope0"));
  CHECK(contains(refused.err, "fabric0"));
  // A card without a connection would not do.
  CHECK_FALSE(contains(refused.err, "blind0"));
}

TEST_CASE("an unreachable master address is named while the node waits, and at its end") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  // No host has this address: the packets are never answered.
  const auto ended =
      run(hosts.on(1, with_cpprun({"--nnodes=2", "--node_rank=1", "--master_addr=10.77.0.9",
                                   "--master_port=29500", "--rdzv-conf=join_timeout=4", worker(),
                                   "say", "started"})));
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, "10.77.0.9:29500"));
}

TEST_CASE("a failure on one host ends the workers of the other with the same code") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Command second(hosts.on(1, node(1, Hosts::address(0), {"hang_if_not", "3", "exit", "21"})));
  Command first(hosts.on(0, node(0, Hosts::address(0), {"hang"})));
  CHECK(first.wait().code == 21);
  CHECK(second.wait().code == 21);
  first.expect_no_worker_left();
  second.expect_no_worker_left();
}

}  // namespace two_hosts_test
