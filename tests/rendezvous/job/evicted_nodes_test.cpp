// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/exclusions.h"

#include <doctest/doctest.h>

#include "rendezvous/job/operator_command.h"

namespace evicted_nodes_test {

using namespace cpprun;

TEST_CASE("an agent is identified by host, pid and number") {
  const link::Join agent{.host = "alpha", .pid = 7, .agent = 99};
  EvictedNodes evicted_nodes;
  CHECK(evicted_nodes.find(agent) == nullptr);
  evicted_nodes.add(agent, "why");
  REQUIRE(evicted_nodes.find(agent) != nullptr);
  CHECK(*evicted_nodes.find(agent) == "why");
  CHECK(evicted_nodes.find({.host = "alpha", .pid = 8, .agent = 99}) == nullptr);
  CHECK(evicted_nodes.find({.host = "alpha", .pid = 7, .agent = 98}) == nullptr);
  CHECK(evicted_nodes.find({.host = "beta", .pid = 7, .agent = 99}) == nullptr);
}

TEST_CASE("only the most recent evictions are remembered") {
  EvictedNodes evicted_nodes;
  for (std::size_t pid = 0; pid <= bounds::dismissals_max; ++pid) {
    evicted_nodes.add({.host = "alpha", .pid = static_cast<int>(pid)}, "why");
  }
  CHECK(evicted_nodes.find({.host = "alpha", .pid = 0}) == nullptr);
  CHECK(evicted_nodes.find({.host = "alpha", .pid = 1}) != nullptr);
}

}  // namespace evicted_nodes_test
