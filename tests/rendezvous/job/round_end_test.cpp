// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_outcome.h"

#include <doctest/doctest.h>

namespace round_end_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

Failures::Entry end_of(int rank, link::ExitStatus status, bool consequence = false) {
  return {.failure = {.rank = Rank{rank}, .status = status, .consequence = consequence},
          .at = TimePoint{} + rank * 1s,
          .what = "rank " + std::to_string(rank) + " on beta failed"};
}

}  // namespace

TEST_CASE("a job ends with the code of the first failure, whichever node was asked to stop later") {
  RoundEnd round_end{.reason = "rank 4 on beta failed"};
  round_end.failures.add(end_of(4, {false, 1}, true));
  round_end.failures.add(end_of(5, {true, 11}));
  CHECK(finish_of(round_end).exit_code == 139);
  CHECK(finish_of(round_end).reason == "rank 5 on beta failed");
  CHECK(finish_of(round_end).consequence_count == 1);
  CHECK(finish_of(round_end).consequences[0].rank == Rank{4});
  round_end.stop = link::Leave{.signal = 15, .reason = "asked to stop"};
  CHECK(finish_of(round_end).exit_code == 139);
}

TEST_CASE(
    "a job that was asked to stop ends with 128 plus the signal, or with 1 without a signal") {
  RoundEnd round_end{.reason = "node 1 leaves", .stop = link::Leave{.signal = 2, .reason = ""}};
  CHECK(finish_of(round_end).exit_code == 130);
  round_end.stop->signal = 0;
  CHECK(finish_of(round_end).exit_code == 1);
}

TEST_CASE("workers that fail because a node was stopped are not failures of the job") {
  RoundEnd round_end{.reason = "node 1 leaves", .stop = link::Leave{.signal = 15, .reason = ""}};
  round_end.failures.add(end_of(1, {false, 1}, true));
  CHECK(finish_of(round_end).exit_code == 143);
  CHECK_FALSE(finish_of(round_end).root);
}

TEST_CASE("a stop that was requested before the first failure is the cause of the interruption") {
  RoundEnd round_end{.reason = "rank 2 on beta failed", .at = TimePoint{} + 9s};
  round_end.failures.add(end_of(2, {false, 1}));
  round_end.stop = link::Leave{.signal = 15, .reason = ""};
  SUBCASE("the stop was requested before") {
    round_end.polite_since(TimePoint{} + 1s, "node 1 leaves");
    CHECK(round_end.reason == "node 1 leaves");
    CHECK(finish_of(round_end).exit_code == 143);
  }
  SUBCASE("the stop was requested after") {
    round_end.polite_since(TimePoint{} + 3s, "node 1 leaves");
    CHECK(round_end.reason == "rank 2 on beta failed");
    CHECK(finish_of(round_end).exit_code == 1);
  }
  CHECK(round_end.at < TimePoint{} + 9s);
}

}  // namespace round_end_test
