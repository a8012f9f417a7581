// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <doctest/doctest.h>

namespace own_place_test {

using namespace cpprun;

TEST_CASE("a node alone uses its own address, without a name server") {
  Config config;
  config.nodes_max = 1;
  CHECK(place_alone(config, std::nullopt) == agent::LinkUp{"127.0.0.1"});
  CHECK(place_alone(config, "10.0.0.1") == agent::LinkUp{"127.0.0.1", {"10.0.0.1"}});
  config.nodes_max = 2;
  CHECK(place_alone(config, "10.0.0.1") == std::nullopt);
}

TEST_CASE("with several nodes the master uses its address on the route to its first one") {
  CHECK(place_among_nodes({"10.0.0.1", "10.1.0.1"}, std::string("10.0.0.2")) ==
        agent::LinkUp{"10.0.0.2", {"10.0.0.1", "10.1.0.1"}});
  CHECK(place_among_nodes({"10.0.0.1"}, failure("Network is unreachable")) ==
        agent::LinkUp{"", {"10.0.0.1"}});
}

}  // namespace own_place_test
