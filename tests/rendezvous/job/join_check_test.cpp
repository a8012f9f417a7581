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

TEST_CASE("a node rank is given once, and one may wait to see whether its holder is there") {
  const std::string taken =
      "node rank 1 is taken by beta (pid 7); beta (pid 7) asked for it too: give each node its "
      "own --node_rank, from 0 to 1";
  Round round;
  CHECK_FALSE(join_check(terms, round, 3s, node(1)));
  round.enter(LinkId{1}, {.join = node(1)});
  CHECK_FALSE(join_check(terms, round, 3s, node(1)));
  round.enter(LinkId{2}, {.join = node(1)});
  CHECK(join_check(terms, round, 3s, node(1)) == taken);
  CHECK_FALSE(join_check(terms, round, 3s, node(0)));
  // Of the agent in our own process nothing has to be found out.
  Round master;
  master.enter(LinkId{1}, {.join = node(1), .local = true});
  CHECK(join_check(terms, master, 3s, node(1)) == taken);
}

TEST_CASE("who still is of a round that does not go on here does not come in as it is") {
  link::Join late = node(1);
  late.after = RoundNumber{4};
  CHECK(join_check(terms, Round{}, 3s, late) ==
        "round 4, of which beta still is, does not go on here: either this node was silent for 3 s "
        "and was given up, or this is another master");
  late.idle = true;
  CHECK_FALSE(join_check(terms, Round{}, 3s, late));
}

TEST_CASE("a node that believes in another lease is refused: its workers would outlive its seat") {
  link::Join patient = node(1);
  patient.lease = std::chrono::milliseconds(30'000);
  CHECK(join_check(terms, Round{}, 3s, patient) ==
        "this job declares a node lost after 3 s, but beta came with 30 s (keep_alive_interval "
        "times keep_alive_max_attempt of --rdzv-conf); start every node with the same");
  patient.lease = std::chrono::milliseconds(3000);
  CHECK_FALSE(join_check(terms, Round{}, 3s, patient));
}

TEST_CASE("what the command line refuses is refused on the wire as well") {
  CHECK_FALSE(impossible(node(1)));
  const auto changed = [](auto change) {
    link::Join join = node(1);
    change(join);
    return impossible(join).value_or("");
  };
  CHECK(changed([](auto& j) { j.job.clear(); }) ==
        "its join names no job: give every node the same --rdzv-id");
  CHECK(changed([](auto& j) { j.lease = 1ms; }) == "its join says lease_ms=1, which cannot be");
  CHECK(changed([](auto& j) { j.lease = 100ms; }) == "");
  CHECK(changed([](auto& j) { j.nodes_min = 0; }) == "its join says min=0, which cannot be");
  CHECK(changed([](auto& j) { j.nodes_max = 1; }) == "its join says max=1, which cannot be");
  CHECK(changed([](auto& j) { j.local_world_size = 1 << 30; }) ==
        "its join says workers=1073741824, which cannot be");
  CHECK(changed([](auto& j) { j.restarts.max = -1; }) ==
        "its join says restarts=-1, which cannot be");
  CHECK(changed([](auto& j) { j.lease = std::chrono::milliseconds(-5); }) ==
        "its join says lease_ms=-5, which cannot be");
  // The round after the next would have number 0.
  CHECK(changed([](auto& j) { j.after.value = 4'294'967'294; }) ==
        "its join says after=4294967294, which cannot be");
  CHECK(changed([](auto& j) { j.nodes_max = 1'000'001; }) ==
        "its join says max=1000001, which cannot be");
}

}  // namespace join_check_test
