// SPDX-License-Identifier: BSD-3-Clause
// A job keeps its invariants in every situation. The other tests of a job check them after each
// step as well, and planted bugs in tests/sim show that the check can fail.

#include <doctest/doctest.h>

#include "tests/rendezvous/job/job_table.h"

namespace job_check_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("a job's invariants hold through a failure, a lost node, a pause and the end") {
  Table table{
      JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2, .restarts = {.max = 2, .backoff = 5s}}};
  CHECK_FALSE(table.job.check());
  table.seal();
  table.hear(t0 + 1s, b, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}});
  table.drained(t0 + 1s, 1, {a, b});
  table.awake(t0 + 3s);
  table.close(t0 + 3s, b);
  table.awake(t0 + 7s);
  table.join(t0 + 8s, c, node(1));
  REQUIRE(table.job.round().phase() == Round::Phase::sealed);
  table.hear(t0 + 9s, a, link::Succeeded{RoundNumber{2}});
  table.hear(t0 + 9s, c, link::Succeeded{RoundNumber{2}});
  CHECK(table.job.over());
}

TEST_CASE("members are listed in node order, whatever their link ids") {
  Table table;
  table.join(t0, c, node(0), true);
  table.join(t0, a, node(1));
  table.join(t0, b, {.job = "j", .host = "late", .nodes_min = 2, .nodes_max = 2});
  std::vector<LinkId> order;
  for (const auto& [link, member] : table.job.round().members()) order.push_back(link);
  CHECK(order == std::vector{c, a, b});
}

}  // namespace job_check_test
