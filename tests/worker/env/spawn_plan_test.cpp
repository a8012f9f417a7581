// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/spawn.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("nodes with unequal numbers of workers share one world") {
  const auto second = spawned_environments(
      {.workers_of_node = {8, 2}, .node = 1, .master_address = "10.0.0.1", .master_port = 29500},
      {{"PATH", "/bin"}});
  REQUIRE(second.has_value());
  REQUIRE(second->size() == 2);
  const Environment& last = second->back();
  CHECK(last.at("RANK") == "9");
  CHECK(last.at("LOCAL_RANK") == "1");
  CHECK(last.at("WORLD_SIZE") == "10");
  CHECK(last.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(last.at("GROUP_RANK") == "1");
  CHECK(last.at("GROUP_WORLD_SIZE") == "2");
  CHECK(last.at("MASTER_ADDR") == "10.0.0.1");
  CHECK(last.at("MASTER_PORT") == "29500");
  CHECK(last.at("PATH") == "/bin");
}

TEST_CASE("a worker of a launcher does not start workers") {
  const auto refused = spawned_environments({.workers_of_node = {2}}, {{"RANK", "3"}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason.find("already rank 3") != std::string::npos);
  CHECK(refused.error().reason.find("omit --spawn") != std::string::npos);
}

TEST_CASE("a node outside the plan is rejected") {
  const auto refused = spawned_environments({.workers_of_node = {8, 2}, .node = 2}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == "node index 2 is out of range: the 2 nodes are numbered 0 to 1");
}

TEST_CASE("a node without workers is rejected") {
  CHECK_FALSE(spawned_environments({.workers_of_node = {2, 0}}, {}).has_value());
}
