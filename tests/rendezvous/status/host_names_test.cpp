// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_access.h"

#include <doctest/doctest.h>

namespace host_names_test {

using namespace cpprun;

TEST_CASE("a machine has its configured name, its host name, and its fully qualified names") {
  CHECK(host_names({"10.0.0.5", "head.example.org", ""},
                   {.host = "node1",
                    .hosts = {},
                    .resolv = "nameserver 10.0.0.1\nsearch cluster.local. example.org # two\n"}) ==
        HostNames{"10.0.0.5", "head.example.org", "node1", "node1.cluster.local",
                  "node1.example.org"});
}

TEST_CASE("only the aliases of the machine's own name in /etc/hosts are its names") {
  const std::string hosts =
      "127.0.0.1 localhost\n"
      "10.0.0.5\tnode1.example.org node1 head # the head\n"
      "10.0.0.6 node2.example.org node2\n"
      "# 10.0.0.7 node1 former\n";
  CHECK(host_names({}, {.host = "node1", .hosts = hosts}) ==
        HostNames{"node1", "node1.example.org", "head"});
}

TEST_CASE("a host name with a domain also counts without it") {
  CHECK(host_names({}, {.host = "node1.example.org"}) == HostNames{"node1.example.org", "node1"});
  CHECK(host_names({}, {.host = ""}).empty());
}

}  // namespace host_names_test
