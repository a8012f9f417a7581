// A judge who never objects proves nothing: ten bugs such as people make are planted into copies of
// the sources (plants/*.patch), and each must be found within so many seeds.

#include <doctest/doctest.h>

#include "tests/sim/campaign.h"
#include "tests/sim/plants/planted_bug.h"

using namespace cpprun;
using namespace cpprun::sim;

namespace {

Tally sail_with(int bug, const std::string& kinds, std::uint64_t seeds) {
  planted_bug = bug;
  const Tally tally = sail({.first = 1,
                            .seeds = seeds,
                            .agents_max = 6,
                            .kinds = parse_kinds(kinds).value(),
                            .kinds_text = kinds,
                            .keep = {}});
  planted_bug = 0;
  return tally;
}

void must_be_found(int bug, const std::string& kinds, std::uint64_t seeds) {
  const Tally tally = sail_with(bug, kinds, seeds);
  MESSAGE("planted bug ", bug, ", seed ", tally.failed.value_or(0), ": ", tally.verdict);
  CHECK(tally.failed.has_value());
}

}  // namespace

TEST_CASE("without a bug nothing is found") {
  CHECK(sail_with(0, "all", 500).verdict.empty());
  CHECK(sail_with(0, "network", 500).verdict.empty());
}
TEST_CASE("found: a heartbeat does not renew the lease") {
  must_be_found(1, "none", 100);
}
TEST_CASE("found: an agent says that it has drained before its workers are gone") {
  must_be_found(2, "workers", 100);
}
TEST_CASE("found: the budget of restarts is overdrawn by one") {
  must_be_found(3, "workers", 500);
}
TEST_CASE("found: restarts are counted by each node for itself") {
  must_be_found(4, "workers", 500);
}
TEST_CASE("found: a drain that was missed while the link was down is not told again") {
  must_be_found(5, "network,exit", 2000);
}
TEST_CASE("found: an agent whose lease is over leaves its workers alive") {
  must_be_found(6, "network", 1000);
}
TEST_CASE("found: with nodes to spare a seat is given away twice") {
  must_be_found(7, "exit", 500);
}
TEST_CASE("found: a node settles before the groups of its workers are swept") {
  must_be_found(8, "leftover,exit", 1000);
}
TEST_CASE("found: who ignores TERM is never sent KILL") {
  must_be_found(9, "hang,exit", 500);
}
TEST_CASE("found: the failures of a round are taken for the next one's") {
  must_be_found(10, "exit,spawn", 1000);
}
