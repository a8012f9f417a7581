#include "rendezvous/job/breakup.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

Failures::Entry end_of(int rank, link::ExitStatus status, bool consequence = false) {
  return {.failure = {.rank = Rank{rank}, .status = status, .consequence = consequence},
          .at = TimePoint{} + rank * 1s,
          .what = "rank " + std::to_string(rank) + " on beta failed"};
}

}  // namespace

TEST_CASE("a job ends with the code of what failed first, whoever was asked to stop later") {
  Breakup breakup{.reason = "rank 4 on beta failed"};
  breakup.failures.add(end_of(4, {false, 1}, true));
  breakup.failures.add(end_of(5, {true, 11}));
  CHECK(finish_of(breakup).exit_code == 139);
  CHECK(finish_of(breakup).reason == "rank 5 on beta failed");
  CHECK(finish_of(breakup).consequence_count == 1);
  CHECK(finish_of(breakup).consequences[0].rank == Rank{4});
  breakup.stop = link::Leave{.signal = 15, .reason = "asked to stop"};
  CHECK(finish_of(breakup).exit_code == 139);
}

TEST_CASE("a job that was asked to stop ends with 128 and that signal, or 1 without one") {
  Breakup breakup{.reason = "node 1 leaves", .stop = link::Leave{.signal = 2, .reason = ""}};
  CHECK(finish_of(breakup).exit_code == 130);
  breakup.stop->signal = 0;
  CHECK(finish_of(breakup).exit_code == 1);
}

TEST_CASE("whom a stopped node drags along is no failure of the job") {
  Breakup breakup{.reason = "node 1 leaves", .stop = link::Leave{.signal = 15, .reason = ""}};
  breakup.failures.add(end_of(1, {false, 1}, true));
  CHECK(finish_of(breakup).exit_code == 143);
  CHECK_FALSE(finish_of(breakup).root);
}

TEST_CASE("a stop that was asked for before the first failure is the reason of the break") {
  Breakup breakup{.reason = "rank 2 on beta failed", .at = TimePoint{} + 9s};
  breakup.failures.add(end_of(2, {false, 1}));
  breakup.stop = link::Leave{.signal = 15, .reason = ""};
  SUBCASE("it was") {
    breakup.polite_since(TimePoint{} + 1s, "node 1 leaves");
    CHECK(breakup.reason == "node 1 leaves");
    CHECK(finish_of(breakup).exit_code == 143);
  }
  SUBCASE("it was not") {
    breakup.polite_since(TimePoint{} + 3s, "node 1 leaves");
    CHECK(breakup.reason == "rank 2 on beta failed");
    CHECK(finish_of(breakup).exit_code == 1);
  }
  CHECK(breakup.at < TimePoint{} + 9s);
}
