// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_terms.h"

#include <doctest/doctest.h>

namespace join_check_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const JobTerms terms{.id = "j", .nodes_min = 2, .nodes_max = 2};

link::Join node(int rank) {
  return {.job = "j", .host = "beta", .pid = 7, .node_rank = rank, .nodes_min = 2, .nodes_max = 2};
}

}  // namespace

TEST_CASE(
    "a node rank is given once, and one claimant may wait to see whether its holder is alive") {
  const std::string taken =
      "node rank 1 is taken by beta (pid 7), but beta (pid 7) has the same; give each node its "
      "own --node-rank, from 0 to 1";
  Round round;
  CHECK_FALSE(join_check(terms, round, 3s, node(1)));
  round.enter(LinkId{1}, {.join = node(1)});
  CHECK_FALSE(join_check(terms, round, 3s, node(1)));
  round.enter(LinkId{2}, {.join = node(1)});
  CHECK(join_check(terms, round, 3s, node(1)) == taken);
  CHECK_FALSE(join_check(terms, round, 3s, node(0)));
  // The agent in the coordinator's own process needs no check.
  Round master;
  master.enter(LinkId{1}, {.join = node(1), .local = true});
  CHECK(join_check(terms, master, 3s, node(1)) == taken);
}

TEST_CASE("a node of a round that does not continue here is rejected in that state") {
  link::Join late = node(1);
  late.after = RoundNumber{4};
  CHECK(join_check(terms, Round{}, 3s, late) ==
        "beta tries to resume round 4, which this coordinator does not run; either the node was "
        "declared lost (silent for 3 s), or it reached another master");
  late.idle = true;
  CHECK_FALSE(join_check(terms, Round{}, 3s, late));
}

TEST_CASE("a node with another lease is rejected: its workers would outlive its seat") {
  link::Join other_lease = node(1);
  other_lease.lease = std::chrono::milliseconds(30'000);
  CHECK(join_check(terms, Round{}, 3s, other_lease) ==
        "this job declares a node lost after 3 s, but beta has 30 s (keep_alive_interval times "
        "keep_alive_max_attempt of --rdzv-conf); use the same values on every node");
  other_lease.lease = std::chrono::milliseconds(3000);
  CHECK_FALSE(join_check(terms, Round{}, 3s, other_lease));
}

TEST_CASE("a join is rejected for the same values as on the command line") {
  CHECK_FALSE(impossible(node(1)));
  const auto changed = [](auto change) {
    link::Join join = node(1);
    change(join);
    return impossible(join).value_or("");
  };
  CHECK(changed([](auto& j) { j.job.clear(); }) ==
        "invalid join message: no job id; use the same --rdzv-id on every node");
  CHECK(changed([](auto& j) { j.lease = 1ms; }) ==
        "invalid join message: lease_ms=1 is out of range");
  CHECK(changed([](auto& j) { j.lease = 100ms; }) == "");
  CHECK(changed([](auto& j) { j.nodes_min = 0; }) == "invalid join message: min=0 is out of range");
  CHECK(changed([](auto& j) { j.nodes_max = 1; }) == "invalid join message: max=1 is out of range");
  CHECK(changed([](auto& j) { j.local_world_size = 1 << 30; }) ==
        "invalid join message: workers=1073741824 is out of range");
  CHECK(changed([](auto& j) { j.restarts.max = -1; }) ==
        "invalid join message: restarts=-1 is out of range");
  CHECK(changed([](auto& j) { j.lease = std::chrono::milliseconds(-5); }) ==
        "invalid join message: lease_ms=-5 is out of range");
  // The round after the next would have number 0.
  CHECK(changed([](auto& j) { j.after.value = 4'294'967'294; }) ==
        "invalid join message: after=4294967294 is out of range");
  CHECK(changed([](auto& j) { j.nodes_max = 1'000'001; }) ==
        "invalid join message: max=1000001 is out of range");
}

}  // namespace join_check_test
