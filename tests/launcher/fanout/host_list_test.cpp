// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/host_list.h"

#include <doctest/doctest.h>

namespace host_list_test {

using namespace cpprun;

namespace {

std::vector<Host> good(const HostList& list) {
  if (!list) FAIL(list.error().front());
  return *list;
}

}  // namespace

TEST_CASE("hosts are separated by commas, each with slots or without") {
  CHECK(good(parse_hosts("a,b:4, root@c ")) ==
        std::vector<Host>{{"a", std::nullopt}, {"b", 4}, {"root@c", std::nullopt}});
}

TEST_CASE("a colon within an IPv6 address does not start a number of slots") {
  CHECK(good(parse_hosts("fd77::1,[fd77::2]:4,[fd77::3]")) ==
        std::vector<Host>{{"fd77::1", std::nullopt}, {"fd77::2", 4}, {"fd77::3", std::nullopt}});
}

TEST_CASE("all errors in a list of hosts are reported together") {
  const auto list = parse_hosts("a,,b:x,-oProxyCommand=x,c d,a");
  REQUIRE(!list);
  REQUIRE(list.error().size() == 5);
  CHECK(list.error()[0] == "empty host name");
  CHECK(list.error()[1] == "invalid number of slots \"x\" for b; use 1 to 2048");
  CHECK(list.error()[2] == "\"-oProxyCommand=x\" is an option, not a host");
  CHECK(list.error()[3] ==
        "\"c d\" is not a host name; use only letters, digits and . _ - @ : % /");
  CHECK(list.error()[4] == "a is listed twice; list it once, with its slots");
  CHECK(parse_hosts("").error().front() == "empty host name");
  CHECK(!parse_hosts("[fd77::1]x"));
  CHECK(!parse_hosts("a:0"));
}

TEST_CASE("a host file is read in the formats of Open MPI and of DeepSpeed") {
  const auto list = parse_host_file(
      "# the rack\n\nnode1 slots=8\nnode2:4 # half of it is lent\r\n  node3\n"
      "node4 slots=2 max-slots=4\n",
      "hosts");
  CHECK(good(list) ==
        std::vector<Host>{{"node1", 8}, {"node2", 4}, {"node3", std::nullopt}, {"node4", 2}});
}

TEST_CASE("errors in a host file are reported with their lines") {
  const auto list = parse_host_file("node1 slots=many\nnode2 cores=4\nnode3\nnode3\n", "my.hosts");
  REQUIRE(!list);
  REQUIRE(list.error().size() == 3);
  CHECK(list.error()[0] == "my.hosts:1: invalid number of slots \"many\" for node1; use 1 to 2048");
  CHECK(list.error()[1] == "my.hosts:2: unknown word \"cores=4\" after node2; write node2 slots=4");
  CHECK(list.error()[2] ==
        "my.hosts:4: node3 is listed twice, first in my.hosts:3; list it once, with its slots");
  CHECK(parse_host_file("# no host\n", "h").error().front() == "h: no hosts found");
}

}  // namespace host_list_test
