// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

namespace ranks_test {

using namespace cpprun;

TEST_CASE("host names are sorted with numbers in numeric order") {
  CHECK(natural_less("node2", "node10"));
  CHECK_FALSE(natural_less("node10", "node2"));
  CHECK(natural_less("a", "b"));
  CHECK(natural_less("rack1-node9", "rack1-node11"));
  CHECK(natural_less("rack1-node99", "rack2-node1"));
  CHECK(natural_less("node", "node1"));
  CHECK_FALSE(natural_less("node1", "node1"));
  CHECK(natural_less("node01", "node1") != natural_less("node1", "node01"));
  CHECK(natural_less("n99999999999999999999998", "n99999999999999999999999"));
}

TEST_CASE("an explicit node rank determines the seat") {
  CHECK(seat_order({{.node_rank = 1, .host = "a"}, {.node_rank = 0, .host = "b"}}) ==
        std::vector<std::size_t>{1, 0});
}

TEST_CASE("without node ranks the natural order of hosts decides, then the agent's pid") {
  CHECK(seat_order({{.host = "node10"}, {.host = "node2"}, {.host = "node1"}}) ==
        std::vector<std::size_t>{2, 1, 0});
  CHECK(seat_order({{.host = "a", .pid = 9}, {.host = "a", .pid = 3}}) ==
        std::vector<std::size_t>{1, 0});
}

TEST_CASE("nodes without a rank fill the seats that are free") {
  CHECK(seat_order({{.host = "a"}, {.node_rank = 1, .host = "b"}, {.host = "c"}}) ==
        std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("survivors keep their order and newcomers come after them") {
  CHECK(seat_order({{.host = "a"},
                    {.previous = GroupRank{2}, .host = "z"},
                    {.previous = GroupRank{0}, .host = "y"}}) == std::vector<std::size_t>{2, 1, 0});
}

TEST_CASE("a node rank beyond the round's size is used for the order, but is not a seat") {
  CHECK(seat_order({{.node_rank = 7, .host = "a"}, {.node_rank = 5, .host = "b"}}) ==
        std::vector<std::size_t>{1, 0});
}

TEST_CASE("with fewer seats than a node's rank, no node overtakes another into a free seat") {
  // The first of three nodes has left.
  CHECK(seat_order({{.node_rank = 2, .host = "c"}, {.node_rank = 1, .host = "b"}}) ==
        std::vector<std::size_t>{1, 0});
  CHECK(seat_order({{.node_rank = 0, .host = "a"},
                    {.node_rank = 3, .host = "d"},
                    {.node_rank = 2, .host = "c"}}) == std::vector<std::size_t>{0, 2, 1});
}

TEST_CASE("ranks count through nodes of different sizes and roles") {
  const RankTable table = assign_ranks({{.local_world_size = 4, .role = "trainer"},
                                        {.local_world_size = 1, .role = "master"},
                                        {.local_world_size = 2, .role = "trainer"}});
  CHECK(table.world_size == 7);
  CHECK(table.nodes == std::vector<RankRange>{
                           {.base = Rank{0}, .role_base = 0, .role_world_size = 6},
                           {.base = Rank{4}, .role_base = 0, .role_world_size = 1},
                           {.base = Rank{5}, .role_base = 4, .role_world_size = 6},
                       });
}

}  // namespace ranks_test
