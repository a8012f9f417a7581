// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_nodes.h"

#include <doctest/doctest.h>

#include <string>

namespace job_nodes_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

link::Join join_of(int node) {
  return {.job = "j", .host = "host" + std::to_string(node), .pid = 100 + node, .agent = 7u};
}

// Three nodes with a seat, on links 1 to 3; the first hosts the coordinator.
JobNodes seated() {
  JobNodes nodes{3s};
  for (int node = 0; node < 3; ++node) {
    const LinkId link{static_cast<std::uint64_t>(node + 1)};
    const Caller caller{link, "10.0.0." + std::to_string(link.value), node == 0};
    nodes.enter(t0, caller, join_of(node), {});
  }
  nodes.round().seal(3, t0);
  return nodes;
}

}  // namespace

TEST_CASE("nodes are found by rank, by host and by the addresses they connect from") {
  JobNodes nodes = seated();
  CHECK(nodes.nodes_called("1") == std::vector{LinkId{2}});
  CHECK(nodes.nodes_called("host1") == std::vector{LinkId{2}});
  CHECK(nodes.nodes_called("7").empty());
  CHECK(nodes.nodes_of_host("10.0.9.3").empty());
  REQUIRE(nodes.speaks_from({.host = "host2", .pid = 102, .agent = 7u}, "10.0.9.3"));
  CHECK(nodes.nodes_of_host("10.0.9.3") == std::vector{LinkId{3}});
}

TEST_CASE("a node can be evicted if enough others stay and it does not host the coordinator") {
  JobNodes nodes = seated();
  CHECK_FALSE(nodes.objection_to_evict({LinkId{2}}, 2, false));
  CHECK(nodes.objection_to_evict({LinkId{2}}, 3, false) ==
        "only 2 nodes would be left, but the job needs at least 3; start another node first");
  CHECK(nodes.objection_to_evict({LinkId{1}}, 2, false) ==
        "node 0 on host0 hosts the coordinator and cannot be drained or excluded; stop the job "
        "instead");
  CHECK(nodes.evict({LinkId{2}}, "ann drained it") == std::vector{LinkId{2}});
  CHECK(nodes.evict({LinkId{2}}, "ann drained it").empty());
  CHECK(nodes.objection_to_evict({LinkId{2}}, 2, false) == "node 1 on host1 is already leaving");
}

TEST_CASE("an evicted agent is rejected when it asks for a seat again, and another one is not") {
  JobNodes nodes = seated();
  nodes.evict({LinkId{2}}, "ann drained it");
  nodes.round().leave(LinkId{2});
  const Caller caller{LinkId{9}, "10.0.0.2"};
  coordinator::Actions actions;
  CHECK(nodes.reject(t0, caller, join_of(1), false, actions));
  REQUIRE(actions.size() == 2);
  CHECK(std::get<coordinator::Say>(actions[0]).message ==
        link::Message{link::Dismissed{"ann drained it"}});
  link::Join restarted = join_of(1);
  restarted.agent = 8u;
  CHECK_FALSE(nodes.reject(t0, caller, restarted, false, actions));
}

TEST_CASE("the lease of a node continues on a newer link, and ends with its place") {
  JobNodes nodes = seated();
  coordinator::Actions actions;
  nodes.resume(t0 + 1s, LinkId{2}, {LinkId{9}, "10.0.0.2"}, join_of(1), actions);
  CHECK(nodes.round().leases().heard(LinkId{9}) == t0 + 1s);
  CHECK_FALSE(nodes.round().leases().watches(LinkId{2}));
  CHECK_FALSE(nodes.round().check_leases());
  nodes.round().leave(LinkId{9});
  CHECK(nodes.round().leases().size() == 1);  // the coordinator's own node has none
}

}  // namespace job_nodes_test
