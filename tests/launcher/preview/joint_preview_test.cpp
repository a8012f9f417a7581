// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <doctest/doctest.h>

namespace joint_preview_test {

using namespace cpprun;

namespace {

using Value = std::optional<std::string>;

HostPreview host(const std::string& name, int workers, int nodes_min, int nodes_max) {
  PreviewNode node{.host = name + ".local", .role = "default"};
  for (int local = 0; local < workers; ++local) {
    node.workers.push_back(
        {.local_rank = local,
         .variables = {
             {"RANK", std::nullopt}, {"WORLD_SIZE", std::nullopt}, {"MASTER_PORT", "1"}}});
  }
  return {name,
          {.master_port = 1, .nodes_min = nodes_min, .nodes_max = nodes_max, .nodes = {node}}};
}

}  // namespace

TEST_CASE("a preview of all nodes has the ranks of all workers") {
  const auto joint = joint_preview({host("a", 2, 2, 2), host("b", 1, 2, 2)}, true);
  REQUIRE(joint.nodes.size() == 2);
  CHECK(joint.nodes[1].name == "b");
  const auto& last = joint.nodes[1].workers[0];
  CHECK(last.rank == 2);
  CHECK(last.variables.at("RANK") == Value("2"));
  CHECK(last.variables.at("ROLE_RANK") == Value("2"));
  CHECK(last.variables.at("WORLD_SIZE") == Value("3"));
  CHECK(last.variables.at("MASTER_PORT") == Value("1"));
  CHECK(joint.master_port == 1);
}

TEST_CASE("a port that the first host will choose is unknown") {
  const auto joint = joint_preview({host("a", 1, 2, 2), host("b", 1, 2, 2)}, false);
  CHECK_FALSE(joint.master_port);
  CHECK(joint.nodes[0].workers[0].variables.at("MASTER_PORT") == Value());
}

TEST_CASE("an elastic job has no ranks, even with all of its hosts") {
  const auto joint = joint_preview({host("a", 1, 1, 2), host("b", 1, 1, 2)}, true);
  CHECK_FALSE(joint.nodes[0].workers[0].rank);
  CHECK(joint.nodes[1].workers[0].variables.at("RANK") == Value());
}

TEST_CASE("no ranks are invented if a host has not answered") {
  const auto joint = joint_preview({host("a", 1, 2, 2)}, true);
  CHECK_FALSE(joint.nodes[0].workers[0].rank);
}

}  // namespace joint_preview_test
