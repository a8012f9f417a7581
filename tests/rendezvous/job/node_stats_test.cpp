// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

namespace node_stats_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a thousand nodes are asked in five seconds, ten thousand in ten, and not in two") {
  CHECK(pause_between_looks(8) == 2s);
  CHECK(pause_between_looks(400) == 2s);
  CHECK(pause_between_looks(1000) == 5s);
  CHECK(pause_between_looks(2000) == 10s);
  CHECK(pause_between_looks(10'000) == 10s);
  CHECK(pause_between_looks(20'000) == 20s);
}

TEST_CASE("a worker that is reported twice is listed once, and the list is sorted by rank") {
  NodeStats figures;
  const TimePoint t0{};
  figures.hear(t0, {.workers = {{.local_rank = LocalRank{3}}, {.local_rank = LocalRank{5}}}}, 8);
  figures.hear(t0 + 1s, {.workers = {{.local_rank = LocalRank{1}}, {.local_rank = LocalRank{5}}}},
               8);
  REQUIRE(figures.workers.size() == 3);
  CHECK(figures.workers[0].figures.local_rank == LocalRank{1});
  CHECK(figures.workers[1].at == t0);
  CHECK(figures.workers[2].at == t0 + 1s);
}

}  // namespace node_stats_test
