#include "rendezvous/reception.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const JobTerms terms{.id = "j", .nodes_min = 2, .nodes_max = 2};

link::Join node(int rank) {
  return {.job = "j", .host = "beta", .pid = 7, .node_rank = rank, .nodes_min = 2, .nodes_max = 2};
}

}  // namespace

TEST_CASE("a node rank is given once") {
  Round round;
  CHECK_FALSE(objection(terms, round, 3s, node(1)));
  round.enter(LinkId{1}, {.join = node(1)});
  CHECK(objection(terms, round, 3s, node(1)) ==
        "node rank 1 is taken by beta (pid 7); beta (pid 7) asked for it too: give each node its "
        "own --node_rank, from 0 to 1");
  CHECK_FALSE(objection(terms, round, 3s, node(0)));
}

TEST_CASE("who still is of a round that does not go on here does not come in as it is") {
  link::Join late = node(1);
  late.after = RoundNumber{4};
  CHECK(objection(terms, Round{}, 3s, late) ==
        "round 4, of which beta still is, does not go on here: either this node was silent for 3 s "
        "and was given up, or this is another master");
  late.idle = true;
  CHECK_FALSE(objection(terms, Round{}, 3s, late));
}
